"""Steps of many files as record batches: read by several threads, in the order of the files."""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from arro3.core import Array, DataType, Field, RecordBatch, RecordBatchReader, Schema

from argosy.reading import status_of
from argosy.results.lines import open_records, site_of_records
from argosy.results.long_lines import copy_lines
from argosy.results.plain_steps import Place, PlainSteps, Real, Whole, read_plain_steps
from argosy.results.records import RecordFile
from argosy.results.tables import COLUMNS, PHASES, threads

_PART_BYTES = 2 << 20
"""So much is read at once, of one file or several."""
_MOST_FILES = 1000
_AHEAD = 3
"""Parts for each thread that are read before they are asked for."""
_NO_LIMIT = np.iinfo(np.int64).max

_NAME = DataType.dictionary(DataType.int32(), DataType.utf8())
_TYPES = {
    "VARCHAR": _NAME,
    "INTEGER": DataType.int32(),
    "BIGINT": DataType.int64(),
    "DOUBLE": DataType.float64(),
}
_SCHEMA = Schema([Field(name, _TYPES[kind]) for name, kind in COLUMNS["steps"].items()])


@dataclass
class StepBatches:
    """The plain steps of `files` in a stream, and their other lines in files of their own.

    Attributes:
        more: once the stream has ended, the files below `work` that hold the other lines of those of
            `files` that have others than a header.
        repeated: how many steps by (experiment, run_id) were left out, as a later job did them again.
        problem: why the stream ended early, if it did.
    """

    files: Sequence[RecordFile]
    work: Path
    more: list[RecordFile] = field(default_factory=list)
    repeated: Counter[tuple[str, str]] = field(default_factory=Counter)
    problem: OSError | None = None

    def stream(self) -> RecordBatchReader:
        """The steps, as rows of the table `steps`."""
        return RecordBatchReader.from_batches(_SCHEMA, self._batches())

    def _batches(self) -> Iterator[RecordBatch]:
        others, runs = 0, []
        try:
            for part in _read_ahead(self.files):
                yield part.batch
                for lines in part.lines:
                    self.repeated[lines.file.experiment, lines.file.run_id] += lines.repeated
                    others += lines.others
                    runs.append(lines.other_runs)
                    if lines.is_last:
                        self._keep_others(lines.file, others, runs)
                        others, runs = 0, []
        except OSError as problem:
            self.problem = problem
            raise

    def _keep_others(self, file: RecordFile, others: int, runs: Sequence[Whole]) -> None:
        # A header that told the offset is all that most files hold besides steps.
        if others == 0 or (others == 1 and file.offset_s is not None):
            return
        target = self.work.joinpath(*Path(file.path).parts[-5:])
        target.parent.mkdir(parents=True, exist_ok=True)
        with open_records(file.path) as source, target.open("wb") as copy:
            for begin, end in np.concatenate(runs).tolist():
                copy_lines(source, copy, begin, end)
        self.more.append(replace(file, path=str(target)))


@dataclass(frozen=True)
class _Lines:
    """Lines of one file: how many steps do not count, and what else there is (see PlainSteps)."""

    file: RecordFile
    is_last: bool
    repeated: int
    others: int
    other_runs: Whole


@dataclass(frozen=True)
class _Part:
    """What is read at once: of several files, or of one that is long."""

    batch: RecordBatch
    lines: Sequence[_Lines]


@dataclass(frozen=True)
class _FilePlace(Place):
    file: RecordFile
    is_last: bool


def _read_ahead(files: Sequence[RecordFile]) -> Iterator[_Part]:
    ahead: deque[Future[_Part]] = deque()
    with ThreadPoolExecutor(threads()) as pool:
        try:
            for places in _parts(files):
                ahead.append(pool.submit(_read_part, places))
                if len(ahead) > _AHEAD * threads():
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def _parts(files: Sequence[RecordFile]) -> Iterator[list[_FilePlace]]:
    """Places in all of `files`, in their order, as they are read at once."""
    part: list[_FilePlace] = []
    size = 0
    for file in files:
        path = Path(file.path)
        length = status_of(path, site_of_records(path)).st_size
        for begin in range(0, max(length, 1), _PART_BYTES):
            end = min(begin + _PART_BYTES, length)
            part.append(_FilePlace(file.path, begin, end, file, is_last=end == length))
            size += end - begin
            if size >= _PART_BYTES or len(part) == _MOST_FILES:
                yield part
                part, size = [], 0
    if part:
        yield part


def _read_part(places: Sequence[_FilePlace]) -> _Part:
    read = read_plain_steps(places)
    of_place = np.repeat(np.arange(len(places), dtype=np.int32), read.counts)
    until = [place.file.until_step for place in places]
    limits = np.array([_NO_LIMIT if step is None else step for step in until])
    is_repeated = read.step >= limits[of_place]
    repeated = np.bincount(of_place[is_repeated], minlength=len(places))
    lines = [
        _Lines(place.file, place.is_last, *of_lines)
        for place, *of_lines in zip(
            places, repeated.tolist(), read.others.tolist(), read.other_runs, strict=True
        )
    ]
    counts = ~is_repeated if is_repeated.any() else slice(None)
    return _Part(_batch([place.file for place in places], read, of_place, counts), lines)


def _batch(
    files: Sequence[RecordFile], read: PlainSteps, of_file: npt.NDArray[np.int32], counts: Any
) -> RecordBatch:
    of_file = of_file[counts]
    of_row = Array.from_numpy(of_file)
    ranks = np.array([file.rank for file in files], np.int32)
    offsets_s = np.array([file.offset_s for file in files], np.float64)
    unknown = Array([None], type=DataType.float64()).take(
        Array.from_numpy(np.zeros(len(of_file), np.int32))
    )
    columns = [
        _names([file.experiment for file in files]).take(of_row),
        _names([file.run_id for file in files]).take(of_row),
        Array.from_numpy(ranks[of_file]),
        Array.from_numpy(read.step[counts]),
        Array.from_numpy(read.epoch[counts]),
        _known(read.start[counts] + offsets_s[of_file]),
        Array.from_numpy(read.seconds[counts]),
        Array.from_numpy(read.samples[counts]),
        *(
            _known(read.phases[phase][counts]) if phase in read.phases else unknown
            for phase in PHASES
        ),
    ]
    return RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _names(texts: Sequence[str]) -> Array:
    return Array(texts, type=DataType.utf8()).cast(_NAME)


def _known(values: Real) -> Array:
    """`values` with nothing in the place of each NaN."""
    missing = np.isnan(values)
    if not missing.any():
        return Array.from_numpy(values)
    rows = values.astype(object)
    rows[missing] = None
    return Array(rows.tolist(), type=DataType.float64())

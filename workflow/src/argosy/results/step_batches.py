"""Steps of many files as record batches: read by several threads, in the order of the files."""

import os
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from arro3.core import Array, DataType, Field, RecordBatch, RecordBatchReader, Schema

from argosy.results.plain_steps import PlainSteps, Real, most_steps, read_plain_steps
from argosy.results.records import RecordFile
from argosy.results.tables import COLUMNS, PHASES, threads

_PART_BYTES = 2 << 20
"""Long files are read in parts of this size."""
_AHEAD = 3
"""Parts for each thread that are read before they are asked for."""

_NAME = DataType.dictionary(DataType.int32(), DataType.utf8())
_TYPES = {
    "VARCHAR": _NAME,
    "INTEGER": DataType.int32(),
    "BIGINT": DataType.int64(),
    "DOUBLE": DataType.float64(),
}
_MOST_ROWS = most_steps(_PART_BYTES)
_FIRST = Array.from_numpy(np.zeros(_MOST_ROWS, np.int32))
_UNKNOWN = Array([None], type=DataType.float64()).take(_FIRST)
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
        others, places = 0, []
        try:
            for part in _read_ahead(self.files):
                yield part.steps
                self.repeated[part.file.experiment, part.file.run_id] += part.repeated
                others += part.others
                places.append(part.other_places)
                if part.is_last:
                    self._keep_others(part.file, others, places)
                    others, places = 0, []
        except OSError as problem:
            self.problem = problem
            raise

    def _keep_others(
        self, file: RecordFile, others: int, places: Sequence[npt.NDArray[np.int64]]
    ) -> None:
        # A header that told the offset is all that most files hold besides steps.
        if others == 0 or (others == 1 and file.offset_s is not None):
            return
        target = self.work.joinpath(*Path(file.path).parts[-5:])
        target.parent.mkdir(parents=True, exist_ok=True)
        with Path(file.path).open("rb") as source, target.open("wb") as copy:
            for begin, end in np.concatenate(places).tolist():
                _copy(source.fileno(), copy.fileno(), begin, end)
        self.more.append(replace(file, path=str(target)))


@dataclass(frozen=True)
class _Part:
    """A part of a file: its steps that count, how many do not, and its other lines."""

    file: RecordFile
    is_last: bool
    steps: RecordBatch
    repeated: int
    others: int
    other_places: npt.NDArray[np.int64]


def _read_ahead(files: Sequence[RecordFile]) -> Iterator[_Part]:
    ahead: deque[Future[_Part]] = deque()
    with ThreadPoolExecutor(threads()) as pool:
        try:
            for file in files:
                size = Path(file.path).stat().st_size
                for begin in range(0, max(size, 1), _PART_BYTES):
                    ahead.append(pool.submit(_read_part, file, begin, size))
                    if len(ahead) > _AHEAD * threads():
                        yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def _read_part(file: RecordFile, begin: int, size: int) -> _Part:
    end = min(begin + _PART_BYTES, size)
    read = read_plain_steps(file.path, begin, end)
    batch = _batch(file, read)
    return _Part(
        file=file,
        is_last=end == size,
        steps=batch,
        repeated=len(read.step) - batch.num_rows,
        others=read.others,
        other_places=read.other_places,
    )


def _batch(file: RecordFile, read: PlainSteps) -> RecordBatch:
    counts: Any = slice(None) if file.until_step is None else read.step < file.until_step
    rows = len(read.step[counts])
    columns = [
        _name(file.experiment, rows),
        _name(file.run_id, rows),
        Array.from_numpy(np.full(rows, file.rank, np.int32)),
        Array.from_numpy(read.step[counts]),
        Array.from_numpy(read.epoch[counts]),
        _UNKNOWN.slice(0, rows)
        if file.offset_s is None
        else Array.from_numpy(read.start[counts] + file.offset_s),
        Array.from_numpy(read.seconds[counts]),
        Array.from_numpy(read.samples[counts]),
        *(
            _known(read.phases[phase][counts]) if phase in read.phases else _UNKNOWN.slice(0, rows)
            for phase in PHASES
        ),
    ]
    return RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _name(text: str, rows: int) -> Array:
    return Array([text], type=DataType.utf8()).cast(_NAME).take(_FIRST.slice(0, rows))


def _known(values: Real) -> Array:
    """`values` with nothing in the place of each NaN."""
    missing = np.isnan(values)
    if not missing.any():
        return Array.from_numpy(values)
    rows = values.astype(object)
    rows[missing] = None
    return Array(rows.tolist(), type=DataType.float64())


def _copy(source: int, target: int, begin: int, end: int) -> None:
    while begin < end and (sent := os.sendfile(target, source, begin, end - begin)):
        begin += sent

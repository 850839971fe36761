"""Reads the ranks' files of steps into Arrow record batches, without damaged rows.

Several threads read; the batches keep the order of the files.
"""

import os
import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from arro3.core import Array, DataType, Field, RecordBatch, RecordBatchReader, Schema

from argosy.results.errors import ResultsError
from argosy.results.files import RecordFile, measured_files, open_records, with_clock
from argosy.results.measured_run import MeasuredRun
from argosy.results.tables import COLUMNS, Run, threads
from argosy.runtime.contract.steps import (
    CHECK_BASE,
    MOST_SAMPLES,
    MOST_SECONDS,
    MOST_STEP,
    ROW_BYTES,
    Header,
    NoStepsError,
    header_of,
)
from argosy_common.reading import NotReadError


@dataclass(frozen=True)
class StepFile(RecordFile):
    """A rank's file of steps. `is_cut`: it ends within a row or the header."""

    rows: int = 0
    is_cut: bool = False


_RANK = re.compile(r"rank-(0|[1-9][0-9]{0,8})\.steps")


def step_files(run: MeasuredRun) -> Iterator[StepFile]:
    """Yield the files of steps of a completed run's measurement.

    Raises ResultsError for an invalid file, OSError for an unreadable one.
    """
    for file in measured_files(run, _RANK):
        with open_records(file.path) as opened:
            begin = os.pread(opened.fileno(), ROW_BYTES, 0)
            size = os.fstat(opened.fileno()).st_size
        header = _header(file, begin)
        rows = size // ROW_BYTES - 1 if header else 0
        found = StepFile(**vars(file), rows=rows, is_cut=size % ROW_BYTES > 0)
        yield with_clock(found, header.unix, header.monotonic) if header else found


def _header(file: RecordFile, begin: bytes) -> Header | None:
    try:
        header = header_of(begin)
    except NoStepsError as problem:
        raise ResultsError(
            f"{file.path}: {problem}", "move the run folder away and run it again"
        ) from None
    if header and header.rank != file.number:
        raise ResultsError(
            f"{file.path}: belongs to rank {header.rank} by its header",
            "move a copied or renamed file away",
        )
    return header


Whole = npt.NDArray[np.int64]
_Words = npt.NDArray[np.uint64]

_WORD = np.dtype("<u8")
_ROW_WORDS = ROW_BYTES // _WORD.itemsize
_NO_LIMIT = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Place:
    """`count` rows of a file, from row `first` on."""

    file: StepFile
    first: int
    count: int


@dataclass(frozen=True)
class Part:
    """Valid rows of some places, in order; faults are counted by run."""

    batch: RecordBatch
    repeated: Counter[Run]
    unreadable: Counter[Run]


def read_rows(places: Sequence[Place]) -> Part:
    """Read the rows at `places`, without repeated ones.

    Times are in seconds. A phase is NaN if it is unrecorded; `epoch` is out of range if unknown. Raises
    OSError for an unreadable or truncated file.
    """
    counts = [place.count for place in places]
    rows = np.empty((sum(counts), _ROW_WORDS), _WORD)
    ends = np.cumsum(counts)
    for place, end in zip(places, ends.tolist(), strict=True):
        _read(place, rows[end - place.count : end])
    # Transpose to contiguous columns in native byte order.
    columns = np.ascontiguousarray(rows.T, dtype=np.uint64)
    of_place = np.repeat(np.arange(len(places)), counts)
    files = [place.file for place in places]
    is_good = _are_good(columns)
    limits = [_NO_LIMIT if file.until_step is None else file.until_step for file in files]
    is_repeated = is_good & (columns[0].view(np.int64) >= np.array(limits)[of_place])
    is_kept = is_good & ~is_repeated
    unreadable, repeated = _by_run(files, of_place[~is_good]), _by_run(files, of_place[is_repeated])
    if not is_kept.all():
        columns, of_place = np.compress(is_kept, columns, axis=1), of_place[is_kept]
    return Part(_batch(files, columns, of_place), repeated, unreadable)


def _are_good(columns: _Words) -> npt.NDArray[np.bool_]:
    """Return whether each row has a correct checksum and possible values."""
    counts, times, phases = columns[:3], columns[3:5], columns[5:-1]
    step, _, samples = counts
    check = columns[:-1].sum(axis=0) + np.uint64(CHECK_BASE)
    # Negative numbers are large as unsigned ones, and fail the limits below.
    is_good: npt.NDArray[np.bool_] = check == columns[-1]
    is_good &= (step <= MOST_STEP) & (samples <= MOST_SAMPLES)
    # NaN is invalid as a time, and valid as a phase: unrecorded.
    for time in times.view(np.float64):
        is_good &= (time >= 0) & (time <= MOST_SECONDS)
    for phase in phases.view(np.float64):
        is_good &= ~((phase < 0) | (phase > MOST_SECONDS))
    return is_good


def _read(place: Place, rows: _Words) -> None:
    rest = memoryview(rows.data).cast("B")
    at = (1 + place.first) * ROW_BYTES
    with open_records(place.file.path) as file:
        while rest:
            size = os.preadv(file.fileno(), [rest], at)
            if size == 0:
                raise NotReadError(Path(place.file.path), "was shortened while it was read")
            rest, at = rest[size:], at + size


_PART_ROWS = 20_000
"""Rows of one part, from one file or several."""
_MOST_FILES = 1000
_AHEAD = 3
"""Parts to read ahead per thread."""

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
    """A stream of the steps in `files`.

    Attributes:
        repeated: number of steps left out by (experiment, run_id) because a later job repeated them;
            complete at the end of the stream.
        unreadable: likewise, number of damaged or truncated rows.
        problem: error that ended the stream early.
    """

    files: Sequence[StepFile]
    repeated: Counter[Run] = field(default_factory=Counter)
    unreadable: Counter[Run] = field(default_factory=Counter)
    problem: OSError | None = None

    def stream(self) -> RecordBatchReader:
        """Return rows of `steps`; unknown times are NaN, unknown epochs are out of range."""
        return RecordBatchReader.from_batches(_SCHEMA, self._batches())

    def _batches(self) -> Iterator[RecordBatch]:
        for file in self.files:
            self.unreadable[file.run] += file.is_cut
        try:
            for part in _read_ahead(self.files):
                self.repeated += part.repeated
                self.unreadable += part.unreadable
                yield part.batch
        except OSError as problem:
            self.problem = problem
            raise


def _read_ahead(files: Sequence[StepFile]) -> Iterator[Part]:
    ahead: deque[Future[Part]] = deque()
    with ThreadPoolExecutor(threads()) as pool:
        try:
            for places in _parts(files):
                ahead.append(pool.submit(read_rows, places))
                if len(ahead) > _AHEAD * threads():
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def _parts(files: Sequence[StepFile]) -> Iterator[list[Place]]:
    """Split all rows of `files` into parts, in order."""
    part: list[Place] = []
    rows = 0
    for file in files:
        for first in range(0, file.rows, _PART_ROWS):
            part.append(Place(file, first, min(_PART_ROWS, file.rows - first)))
            rows += part[-1].count
            if rows >= _PART_ROWS or len(part) == _MOST_FILES:
                yield part
                part, rows = [], 0
    if part:
        yield part


def _by_run(files: Sequence[StepFile], places: Whole) -> Counter[Run]:
    """Count rows by run; `places` are their files' indices."""
    found: Counter[Run] = Counter()
    for file, count in zip(files, np.bincount(places, minlength=len(files)).tolist(), strict=True):
        found[file.run] += count
    return found


def _batch(files: Sequence[StepFile], columns: _Words, of_file: Whole) -> RecordBatch:
    step, epoch, samples = columns[:3].view(np.int64)
    start, seconds, *phases = columns[3:-1].view(np.float64)
    ranks = np.array([file.number for file in files], np.int32)[of_file]
    offsets_s = np.array([file.offset_s for file in files], np.float64)[of_file]
    of_row = Array.from_numpy(of_file)
    numbers = (ranks, step, epoch, start + offsets_s, seconds, samples, *phases)
    names = [[file.experiment for file in files], [file.run_id for file in files]]
    return RecordBatch.from_arrays(
        [*(_names(one).take(of_row) for one in names), *map(Array.from_numpy, numbers)],
        schema=_SCHEMA,
    )


def _names(texts: Sequence[str]) -> Array:
    return Array(texts, type=DataType.utf8()).cast(_NAME)

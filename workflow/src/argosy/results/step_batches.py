"""Steps of many files as record batches: read by several threads, in the order of the files."""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from arro3.core import Array, DataType, Field, RecordBatch, RecordBatchReader, Schema

from argosy.results.step_files import StepFile
from argosy.results.step_rows import Place, StepRows, read_rows
from argosy.results.tables import COLUMNS, Run, threads

_PART_ROWS = 20_000
"""So many are read at once, of one file or several."""
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
    """The steps in `files` in a stream.

    Attributes:
        repeated: once the stream has ended, how many steps by (experiment, run_id) were left out, as a
            later job did them again.
        unreadable: likewise, how many rows are damaged or cut off.
        problem: why the stream ended early, if it did.
    """

    files: Sequence[StepFile]
    repeated: Counter[Run] = field(default_factory=Counter)
    unreadable: Counter[Run] = field(default_factory=Counter)
    problem: OSError | None = None

    def stream(self) -> RecordBatchReader:
        """Return the steps as rows of the table `steps`, but with NaN for times that are not known, and for
        epochs what is none."""
        return RecordBatchReader.from_batches(_SCHEMA, self._batches())

    def _batches(self) -> Iterator[RecordBatch]:
        for file in self.files:
            self.unreadable[file.experiment, file.run_id] += file.is_cut
        try:
            for part in _read_ahead(self.files):
                self.repeated += part.repeated
                self.unreadable += part.unreadable
                yield part.batch
        except OSError as problem:
            self.problem = problem
            raise


@dataclass(frozen=True)
class _Part:
    """What is read at once: of several files, or of one that is long."""

    batch: RecordBatch
    repeated: Counter[Run]
    unreadable: Counter[Run]


def _read_ahead(files: Sequence[StepFile]) -> Iterator[_Part]:
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


def _parts(files: Sequence[StepFile]) -> Iterator[list[Place]]:
    """Yield all rows of `files`, in their order, as they are read at once."""
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


def _read_part(places: Sequence[Place]) -> _Part:
    read = read_rows(places)
    files = [place.file for place in places]
    limits = [_NO_LIMIT if file.until_step is None else file.until_step for file in files]
    is_repeated = read.step >= np.array(limits)[read.place]
    repeated = np.bincount(read.place[is_repeated], minlength=len(places))
    counts = ~is_repeated if is_repeated.any() else slice(None)
    return _Part(
        batch=_batch(files, read, counts),
        repeated=_by_run(files, repeated.tolist()),
        unreadable=_by_run(files, read.damaged.tolist()),
    )


def _by_run(files: Sequence[StepFile], counts: Sequence[int]) -> Counter[Run]:
    found: Counter[Run] = Counter()
    for file, count in zip(files, counts, strict=True):
        found[file.experiment, file.run_id] += count
    return found


def _batch(files: Sequence[StepFile], read: StepRows, counts: "np.ndarray | slice") -> RecordBatch:
    of_file = read.place[counts]
    of_row = Array.from_numpy(of_file)
    ranks = np.array([file.rank for file in files], np.int32)
    offsets_s = np.array([file.offset_s for file in files], np.float64)
    columns = [
        _names([file.experiment for file in files]).take(of_row),
        _names([file.run_id for file in files]).take(of_row),
        *(
            Array.from_numpy(values)
            for values in (
                ranks[of_file],
                read.step[counts],
                read.epoch[counts],
                read.start[counts] + offsets_s[of_file],
                read.seconds[counts],
                read.samples[counts],
                *(phase[counts] for phase in read.phases),
            )
        ),
    ]
    return RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _names(texts: Sequence[str]) -> Array:
    return Array(texts, type=DataType.utf8()).cast(_NAME)

"""Rows of steps out of files, as columns, without those that are damaged."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from argosy.reading import NotReadError, open_regular
from argosy.results.lines import site_of_records
from argosy.results.step_files import StepFile
from argosy.runtime.contract.steps import (
    CHECK_BASE,
    MOST_SAMPLES,
    MOST_SECONDS,
    MOST_STEP,
    ROW_BYTES,
)

Whole = npt.NDArray[np.int64]
Real = npt.NDArray[np.float64]
_Words = npt.NDArray[np.uint64]

_WORD = np.dtype("<u8")
_ROW_WORDS = ROW_BYTES // _WORD.itemsize


@dataclass(frozen=True)
class Place:
    """Rows of a file: `count`, from number `first` on."""

    file: StepFile
    first: int
    count: int


@dataclass(frozen=True)
class StepRows:
    """The good rows at some places, in their order; `place` is which of these each is from.

    Times are in seconds, and as recorded. `phases` (6, n) is NaN where a phase was not recorded, and
    `epoch` is what is no epoch where that is not known. `damaged` is how many other rows each place has.
    """

    place: Whole
    step: Whole
    epoch: Whole
    samples: Whole
    start: Real
    seconds: Real
    phases: Real
    damaged: Whole


def read_rows(places: Sequence[Place]) -> StepRows:
    """Read the rows at `places`.

    Raises OSError for a file that cannot be read, or is shorter by now.
    """
    counts = [place.count for place in places]
    rows = np.empty((sum(counts), _ROW_WORDS), _WORD)
    ends = np.cumsum(counts)
    for place, end in zip(places, ends.tolist(), strict=True):
        _read(place, rows[end - place.count : end])
    # Of each column the values lie beside each other, in the computer's own byte order.
    columns = np.ascontiguousarray(rows.T, dtype=np.uint64)
    of_place = np.repeat(np.arange(len(places)), counts)
    is_good = _are_good(columns)
    damaged = np.bincount(of_place[~is_good], minlength=len(places))
    if damaged.any():
        columns, of_place = np.compress(is_good, columns, axis=1), of_place[is_good]
    step, epoch, samples = columns[:3].view(np.int64)
    start, seconds, *_ = columns[3:5].view(np.float64)
    phases = columns[5:-1].view(np.float64)
    return StepRows(of_place, step, epoch, samples, start, seconds, phases, damaged)


def _are_good(columns: _Words) -> npt.NDArray[np.bool_]:
    """Return whether each row is whole, and a step that can be."""
    counts, times, phases = columns[:3], columns[3:5], columns[5:-1]
    step, _, samples = counts
    check = columns[:-1].sum(axis=0) + np.uint64(CHECK_BASE)
    # Of numbers below 0 the first bit is set, which makes them large ones.
    is_good: npt.NDArray[np.bool_] = check == columns[-1]
    is_good &= (step <= MOST_STEP) & (samples <= MOST_SAMPLES)
    # NaN is neither above nor below: it is no time, but a phase that was not recorded.
    for time in times.view(np.float64):
        is_good &= (time >= 0) & (time <= MOST_SECONDS)
    for phase in phases.view(np.float64):
        is_good &= ~((phase < 0) | (phase > MOST_SECONDS))
    return is_good


def _read(place: Place, rows: _Words) -> None:
    path = Path(place.file.path)
    rest = memoryview(rows.data).cast("B")
    at = (1 + place.first) * ROW_BYTES
    with open_regular(path, site_of_records(path)) as file:
        while rest:
            size = os.preadv(file.fileno(), [rest], at)
            if size == 0:
                raise NotReadError(path, "became shorter while it was read")
            rest, at = rest[size:], at + size

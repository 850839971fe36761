"""Reads the progress and throughput of a run from the ends of records that its ranks are still writing."""

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from argosy.run_folder.log_tail import TAIL_BYTES, tail
from argosy.runtime.contract.layout import PRINTED
from argosy.runtime.contract.steps import Step, last_steps
from argosy.runtime.contract.throughput import SAMPLES, Throughput
from argosy_common import reading
from argosy_common.reading import entries, open_regular, site_of, status_of

FAR = 1e15
"""Limit of numbers that count as measurements."""


def last_records(path: Path, top: Path, size: int = TAIL_BYTES) -> Iterator[dict[str, Any]]:
    """Yield the objects in the last `size` bytes, the newest first, except truncated ones."""
    for line in reversed(tail(path, top, size).decode(errors="replace").split("\n")):
        try:
            found = reading.json_of(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


def number(value: object) -> float | None:
    """Return a finite number from a record; None for other values."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < FAR else None


_STEPS = re.compile(r"rank-([0-9]{1,9})\.steps")

WINDOW_S = 30.0
"""Seconds over which throughput is averaged: long enough to be steady, short enough to be current."""

LAST_STEP_ROWS = 10
"""Rows to read for the last step, since the last row may be damaged."""
PACE_ROWS = 340
"""Rows to read for the throughput: 32 KB."""

PATIENCE_S = 15.0
PATIENCE_STEPS = 5
"""Seconds and steps without a record after which throughput is outdated; the longer counts."""

FIRST_PRINT_S = 60.0
"""Seconds for the same after the first printed throughput, when the interval is still unknown."""


@dataclass(frozen=True)
class Progress:
    """`steps` done by rank 0, of `total` if known; None: no record yet."""

    steps: int | None = None
    total: int | None = None
    samples_per_s: float | None = None
    silent_s: float | None = None
    """Seconds since the last record, if longer than the run's steps explain."""
    silent_of: Literal["step", "print"] = "step"
    """The kind of the last record: a step, or a printed throughput."""
    unit: str = SAMPLES
    """Plural of the unit that throughput counts."""


NO_PROGRESS = Progress()


@dataclass(frozen=True)
class _Pace:
    """The throughput in a file of records; without a record for `patience_s`, it is outdated."""

    samples_per_s: float
    patience_s: float


def read_progress(
    records: Path, ranks: int, now: float, printed: Throughput | None = None
) -> Progress:
    """Return the progress of a running attempt; `printed` describes the throughput in its output."""
    steps = steps_done(records)
    paths = _of_ranks(records, ranks, _STEPS)
    known = [pace for path in paths if (pace := _pace_of_steps(path))]
    if known:
        return _progress(steps, paths, known, now, expected=ranks)
    paths = _of_ranks(records, ranks, PRINTED)
    known = [pace for path in paths if (pace := _printed_pace(path))]
    expected, unit = (len(printed.ranks(ranks)), printed.unit) if printed else (1, SAMPLES)
    found = _progress(steps, paths, known, now, expected)
    return replace(found, silent_of="print" if found.silent_s else "step", unit=unit)


def _progress(
    steps: int | None, paths: Sequence[Path], known: Sequence[_Pace], now: float, expected: int
) -> Progress:
    """Return the sum of the ranks' throughputs, or how long all of them have been silent."""
    silent = now - max(map(_mtime, paths), default=now)
    if silent > max((pace.patience_s for pace in known), default=math.inf):
        return Progress(steps, silent_s=silent)
    # A sum over only some ranks would be too low.
    total = sum(pace.samples_per_s for pace in known) if len(known) == expected else None
    return Progress(steps, samples_per_s=total)


def steps_done(records: Path) -> int | None:
    """Return the steps of rank 0, including those restored from a checkpoint."""
    for step in _last_steps(records / "rank-0.steps", LAST_STEP_ROWS):
        return step.step + 1
    return None


def _pace_of_steps(path: Path) -> _Pace | None:
    """Return the throughput of a rank's last steps, including the time between them."""
    samples, begin, end, longest = 0, 0.0, None, 0.0
    for step in _last_steps(path, PACE_ROWS):
        end = step.start + step.seconds if end is None else end
        if samples and step.start < end - WINDOW_S:
            break
        begin, samples = step.start, samples + step.samples
        longest = max(longest, step.seconds)
    if end is None or end <= begin:
        return None
    rate = number(samples / (end - begin))
    return None if rate is None else _Pace(rate, max(PATIENCE_S, PATIENCE_STEPS * longest))


def _printed_pace(path: Path) -> _Pace | None:
    """Return the mean of the throughputs that a rank has printed in its last seconds."""
    times: list[float] = []
    values: list[float] = []
    for record in last_records(path, _site(path.parent)):
        at, value = number(record.get("at")), number(record.get("samples_per_second"))
        if at is None or value is None:
            continue
        if times and at < times[0] - WINDOW_S:
            break
        times.append(at)
        values.append(value)
    if not values:
        return None
    longest = max((later - earlier for later, earlier in pairwise(times)), default=None)
    patience = FIRST_PRINT_S if longest is None else max(PATIENCE_S, PATIENCE_STEPS * longest)
    return _Pace(fmean(values), patience)


def _last_steps(path: Path, most: int) -> list[Step]:
    try:
        with open_regular(path, _site(path.parent)) as file:
            return last_steps(file.fileno(), most)
    except OSError:
        return []


def _of_ranks(records: Path, ranks: int, name: re.Pattern[str]) -> list[Path]:
    """Return existing files whose names match, for ranks below `ranks`; the group of `name` is the rank."""
    found = []
    with suppress(OSError):
        for each in entries(records, _site(records)):
            rank = name.fullmatch(each.name)
            if rank and int(rank[1] or 0) < ranks:
                found.append(records / each.name)
    return found


def _site(records: Path) -> Path:
    """Return the trusted folder above the records of an attempt."""
    return site_of(records.parents[1])


def _mtime(path: Path) -> float:
    """Return a file's mtime (unix), or 0 if it cannot be read."""
    with suppress(OSError):
        return status_of(path, _site(path.parent)).st_mtime
    return 0.0

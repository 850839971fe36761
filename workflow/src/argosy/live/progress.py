"""How far a run is and how fast, from the ends of its records."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from argosy.live.tail import last_records

WINDOW_S = 30.0
"""Over which a speed is taken: long enough to be steady, short enough to be of now."""

LAST_STEP_BYTES = 8 * 1024
"""A few metrics may follow the last step."""

PATIENCE_S = 15.0
PATIENCE_STEPS = 5
"""Without a new step for longer than both, a speed is no longer of now."""

FIRST_PRINT_S = 60.0
"""The same after the only throughput that a program has printed: nobody knows when the next one is due."""


@dataclass(frozen=True)
class Progress:
    """`steps` done by rank 0, of `total` where that is known; None: no record yet."""

    steps: int | None = None
    total: int | None = None
    samples_per_s: float | None = None
    silent_s: float | None = None
    """How long ago the last record was, if that is longer than the run's steps explain."""
    silent_of: Literal["step", "print"] = "step"
    """What was the last: a step, or a throughput that the program printed."""


NO_PROGRESS = Progress()


@dataclass(frozen=True)
class _Pace:
    samples_per_s: float
    longest_step_s: float


def read_progress(records: Path, ranks: int, now: float) -> Progress:
    """The progress of an incarnation that runs."""
    steps = steps_done(records)
    paces = [_pace(records / f"rank-{rank}.jsonl") for rank in range(ranks)]
    known = [pace for pace in paces if pace]
    if not known:
        return _printed(records / "printed.jsonl", steps, now)
    longest = max(pace.longest_step_s for pace in known)
    silent = now - _written(records, ranks)
    if silent > max(PATIENCE_S, PATIENCE_STEPS * longest):
        return Progress(steps, silent_s=silent)
    # A sum over some of the ranks would be less than what the run does.
    complete = len(known) == ranks
    return Progress(
        steps, samples_per_s=sum(pace.samples_per_s for pace in known) if complete else None
    )


def steps_done(records: Path) -> int | None:
    """Steps of rank 0, those that an earlier incarnation did and saved among them."""
    for record in last_records(records / "rank-0.jsonl", LAST_STEP_BYTES):
        with suppress(KeyError, TypeError, ValueError):
            if record["kind"] == "step":
                return int(record["step"]) + 1
    return None


def _pace(path: Path) -> _Pace | None:
    """Samples over time of a rank's last steps, with what passed between them."""
    samples, begin, end, longest = 0, 0.0, None, 0.0
    for record in last_records(path):
        if record.get("kind") != "step":
            continue
        try:
            start, seconds = float(record["start"]), float(record["seconds"])
            count = int(record["samples"])
        except (KeyError, TypeError, ValueError):
            continue
        end = start + seconds if end is None else end
        if samples and start < end - WINDOW_S:
            break
        begin, samples, longest = start, samples + count, max(longest, seconds)
    if end is None or end <= begin:
        return None
    return _Pace(samples / (end - begin), longest)


def _printed(path: Path, steps: int | None, now: float) -> Progress:
    """The mean of what the program itself printed in its last seconds, while it goes on to print."""
    values: list[float] = []
    last = before = None
    longest = 0.0
    for record in last_records(path):
        try:
            at, value = float(record["at"]), float(record["samples_per_second"])
        except (KeyError, TypeError, ValueError):
            continue
        last = at if last is None else last
        if at < last - WINDOW_S:
            break
        longest = max(longest, 0.0 if before is None else before - at)
        before = at
        values.append(value)
    if not values:
        return Progress(steps)
    expected = PATIENCE_STEPS * longest if len(values) > 1 else FIRST_PRINT_S
    silent = now - _changed(path)
    if silent > max(PATIENCE_S, expected):
        return Progress(steps, silent_s=silent, silent_of="print")
    return Progress(steps, samples_per_s=sum(values) / len(values))


def _written(records: Path, ranks: int) -> float:
    """When a rank last recorded anything."""
    return max(_changed(records / f"rank-{rank}.jsonl") for rank in range(ranks))


def _changed(path: Path) -> float:
    """When a file was written to (unix); 0 when it cannot be told."""
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0

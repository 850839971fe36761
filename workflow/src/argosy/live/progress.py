"""How far a run is and how fast, from the ends of its records."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from argosy.live.tail import last_records

WINDOW_S = 30.0
"""Over which a speed is taken: long enough to be steady, short enough to be of now."""

LAST_STEP_BYTES = 8 * 1024
"""A few metrics may follow the last step."""

PATIENCE_S = 60.0
PATIENCE_STEPS = 5
"""Without a new step for longer than both, a run is called silent."""


@dataclass(frozen=True)
class Progress:
    """`steps` done by rank 0, of `total` where that is known; None: no record yet."""

    steps: int | None = None
    total: int | None = None
    samples_per_s: float | None = None
    silent_s: float | None = None
    """How long nothing was recorded, if that is longer than the run's steps explain."""


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
        return Progress(steps, samples_per_s=_printed(records / "printed.jsonl"))
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


def _printed(path: Path) -> float | None:
    """The mean of what the program itself printed in its last seconds."""
    values: list[float] = []
    last = None
    for record in last_records(path):
        try:
            at, value = float(record["at"]), float(record["samples_per_second"])
        except (KeyError, TypeError, ValueError):
            continue
        last = at if last is None else last
        if at < last - WINDOW_S:
            break
        values.append(value)
    return sum(values) / len(values) if values else None


def _written(records: Path, ranks: int) -> float:
    """When a rank last recorded anything."""
    times = [0.0]
    for rank in range(ranks):
        with suppress(OSError):
            times.append((records / f"rank-{rank}.jsonl").stat().st_mtime)
    return max(times)

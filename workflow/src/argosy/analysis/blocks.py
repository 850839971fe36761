"""Whether repeats were blocks in time, and the pairs that two sizes of such blocks make.

Runs that start near each other have in common what the machine was like then. Their ratio is free of it,
as is that of two plots of one block (Fisher, "The Design of Experiments", 1935, ch. 4).
"""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from argosy.analysis.measurements import Measurement

FEWEST_PAIRS = 6
"""Where blocks have nothing in common, an interval by 6 pairs is 8 to 10 % wider than Welch's, by 5 up to
13 % (`benchmarks/coverage_pairs.py`). Their number alone decides, never which interval is shorter."""

NIGHT_S = 6 * 3600.0
"""Without a start of a run; what is measured after it was measured on another day."""

Pairs = tuple[list[float], list[float]]
"""Throughputs of two sizes, in the same order of repeats."""


def pairs_of(one: Iterable[Measurement], other: Iterable[Measurement]) -> Pairs | None:
    """Return the throughputs of two sizes by repeat; None where they are no pairs.

    They are where both have the same repeats, FEWEST_PAIRS or more, and these were blocks in time.
    """
    ours, theirs = _by_repeat(one), _by_repeat(other)
    if ours is None or theirs is None or ours.keys() != theirs.keys() or len(ours) < FEWEST_PAIRS:
        return None
    starts = {
        repeat: [run.started_unix_s for run in (ours[repeat], theirs[repeat])] for repeat in ours
    }
    if not are_blocks(starts):
        return None
    repeats = sorted(ours)
    return [_rate(ours[each]) for each in repeats], [_rate(theirs[each]) for each in repeats]


def are_blocks(starts: Mapping[int, Sequence[float | None]]) -> bool:
    """Return whether the runs of each repeat started near each other, by their times in seconds.

    Blocks that follow each other may overlap, since jobs of one wait while those of the next start. All of
    a block have to start before any of the next but one; of two blocks, before the other.
    """
    times = [[start for start in block if start is not None] for block in starts.values()]
    if len(times) < 2 or any(
        not known or len(known) < len(block)
        for known, block in zip(times, starts.values(), strict=True)
    ):
        return False
    times.sort(key=min)
    apart = min(2, len(times) - 1)
    return all(
        max(block) < min(later)
        for place, block in enumerate(times)
        for later in times[place + apart :]
    )


def days(started: Sequence[float | None]) -> list[int]:
    """Return the number of the day of each start, in seconds of a clock; a night without starts ends a day.

    A start that is not known is of a day of its own, 0.
    """
    ordered = sorted(one for one in started if one is not None)
    begins = [
        later
        for earlier, later in zip([-math.inf, *ordered], ordered, strict=False)
        if later - earlier > NIGHT_S
    ]
    return [0 if one is None else bisect_right(begins, one) for one in started]


def _by_repeat(runs: Iterable[Measurement]) -> dict[int, Measurement] | None:
    """Return the runs that have a throughput; None where a repeat is not known, or there twice."""
    found: defaultdict[int | None, list[Measurement]] = defaultdict(list)
    for run in runs:
        if run.samples_per_s is not None:
            found[run.repeat].append(run)
    if any(len(several) > 1 for several in found.values()):
        return None
    return {repeat: run for repeat, [run] in found.items() if repeat is not None} or None


def _rate(run: Measurement) -> float:
    assert run.samples_per_s is not None
    return run.samples_per_s

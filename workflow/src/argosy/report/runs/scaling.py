"""Throughput, speed-up and efficiency of each point of an experiment relative to its base.

Runs that start at about the same time share the state of the machine, which cancels in their ratio, as in
two plots of one block (Fisher, "The Design of Experiments", 1935, ch. 4).
"""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from argosy.report.runs.measurements import Measurement, Point
from argosy.report.statistics.estimates import (
    Estimate,
    geometric_mean_estimate,
    paired_ratio_estimate,
    ratio_estimate,
    scaled,
)
from argosy.report.statistics.few_runs import detectable_pair_ratio, detectable_ratio

FEWEST_PAIRS = 6
"""Fewest pairs for paired intervals. If blocks share nothing, an interval of 6 pairs is 8 to 10 % wider
than Welch's, of 5 up to 13 % (`benchmarks/coverage_pairs.py`). The choice never depends on the width."""

NIGHT_S = 6 * 3600.0
"""Time without a start of a run, in s, that separates two days of measurement."""

Pairs = tuple[list[float], list[float]]
"""Throughputs of two sizes, both ordered by repeat."""


def pairs_of(one: Iterable[Measurement], other: Iterable[Measurement]) -> Pairs | None:
    """Pair the throughputs of two sizes by repeat.

    None unless both have the same repeats, at least FEWEST_PAIRS, and these were blocks in time.
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
    """Check that the runs of each repeat started close together; `starts` are in seconds, by repeat.

    Neighbouring blocks may overlap, since jobs wait. Each block must start before any run of the block
    after the next; of two blocks, one before the other.
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
    """Return the number of the day of each start (Unix time, in s), from 1; a pause of NIGHT_S ends a day.

    The day of unknown starts is 0.
    """
    ordered = sorted(one for one in started if one is not None)
    begins = [
        later
        for earlier, later in zip([-math.inf, *ordered], ordered, strict=False)
        if later - earlier > NIGHT_S
    ]
    return [0 if one is None else bisect_right(begins, one) for one in started]


def _by_repeat(runs: Iterable[Measurement]) -> dict[int, Measurement] | None:
    """Return the runs with a throughput by repeat; None if a repeat is unknown or occurs twice."""
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


MUCH_LOST = 0.02
"""Share of a size's runs whose loss removes its interval: a time limit may have ended the slow ones.

If the slowest of 30 runs is lost, 91 of 100 intervals cover the truth (`make bench-coverage`)."""
LOST = "runs that were lost may have been the slow ones"
SLOWER = "runs slow down over time, so means depend on their length"
OTHER_DAYS = "it was measured on other days than the base"
MOSTLY_OTHER_DAYS = "it was mostly measured on other days than the base"
OTHER_HOURS = "it was measured at other hours than the base"
APART_S = 1800.0
"""Mean starts this far apart, in s, count as other hours, unless the runs of both sizes alternate."""
IN_TURNS = 0.25
"""Sizes whose runs alternate are ahead of each other by at most this share of runs, plus one run."""


@dataclass(frozen=True)
class PointScaling:
    """Scaling of one point.

    Args:
        samples_per_s: Throughput of each run.
        throughput: Their geometric mean.
        speed_up: Throughput relative to the base, for strong and weak scaling alike.
        efficiency: Speed-up divided by the growth in ranks; 1 is ideal.
        is_paired: Whether the interval is of pairs of runs in blocks.
        detectable: Smallest ratio to a reference speed-up that such runs show with 80 % power.
        no_interval: Why several runs have no interval.
    """

    point: Point
    samples_per_s: tuple[float, ...]
    throughput: Estimate
    speed_up: Estimate
    efficiency: Estimate
    is_paired: bool = False
    detectable: float | None = None
    no_interval: str | None = None
    much_lost: bool = False
    """Whether so many of its own runs were lost that no number of it has an interval."""


def is_much_lost(states: Mapping[str, int]) -> bool:
    """Return whether too many runs of a size ended without a result; `states` has counts by state."""
    ended = sum(states.values()) - states.get("pending", 0) - states.get("unfinished", 0)
    return ended > 0 and ended - states.get("completed", 0) >= MUCH_LOST * ended


def lost_runs(*sizes: Iterable[Measurement]) -> str | None:
    """Return why these runs give no interval, if too many runs of a size were lost."""
    return LOST if any(run.lost >= MUCH_LOST for size in sizes for run in size) else None


def scaling(runs: Iterable[Measurement]) -> list[PointScaling]:
    """Return the points of one experiment's runs, smallest first; runs without throughput are left out.

    The base is the point with the fewest ranks; its speed-up and efficiency are 1 by definition
    and have no interval.
    """
    by_point: defaultdict[Point, list[Measurement]] = defaultdict(list)
    for run in runs:
        if run.samples_per_s is not None:
            by_point[run.point].append(run)
    much_lost = {point for point, of_point in by_point.items() if lost_runs(of_point)}
    on_days = _days_by_point(by_point)
    base = min(by_point, default=None)
    return [
        _base(of_point, base in much_lost)
        if point == base
        else _against(
            by_point[base],
            of_point,
            point in much_lost,
            LOST
            if {base, point} & much_lost
            else _slower(by_point[base], of_point)
            or _apart(by_point[base], of_point, on_days[base].isdisjoint(on_days[point])),
        )
        for point, of_point in sorted(by_point.items())
        if base is not None
    ]


def without_interval(estimate: Estimate) -> Estimate:
    """Return the estimate without its interval."""
    return Estimate(estimate.n, estimate.mean)


def _days_by_point(by_point: Mapping[Point, Sequence[Measurement]]) -> dict[Point, set[int]]:
    runs = [(point, run.started_unix_s) for point, of_point in by_point.items() for run in of_point]
    found: defaultdict[Point, set[int]] = defaultdict(set)
    for (point, _), day in zip(runs, days([start for _, start in runs]), strict=True):
        found[point].add(day)
    return found


def _apart(
    base: Sequence[Measurement], runs: Sequence[Measurement], are_other_days: bool
) -> str | None:
    """Return why measurement times may explain a difference of two sizes; None if runs alternated."""
    if are_other_days:
        return OTHER_DAYS
    starts = [
        sorted(run.started_unix_s for run in one if run.started_unix_s) for one in (base, runs)
    ]
    if not all(starts) or abs(fmean(starts[0]) - fmean(starts[1])) <= APART_S:
        return None
    if _in_advance(*starts) < min(1.0, IN_TURNS + 1 / min(map(len, starts))):
        return None
    return OTHER_HOURS if len({*days([*starts[0], *starts[1]])}) == 1 else MOSTLY_OTHER_DAYS


def _in_advance(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the Kolmogorov-Smirnov distance between two ordered lists of starts."""
    return max(
        abs(bisect_right(one, at) / len(one) - bisect_right(other, at) / len(other))
        for at in (*one, *other)
    )


def _slower(*sizes: Sequence[Measurement]) -> str | None:
    """Return a reason if runs of a size slow down, so that means depend on their length."""
    ratios = ([run.warm_up.slower for run in runs if run.warm_up] for runs in sizes)
    return SLOWER if any(median(of_size) > 1 for of_size in ratios if of_size) else None


def _throughput(rates: Sequence[float], much_lost: bool) -> Estimate:
    found = geometric_mean_estimate(rates)
    return without_interval(found) if much_lost else found


def _base(runs: Sequence[Measurement], much_lost: bool) -> PointScaling:
    rates = _rates(runs)
    one = Estimate(len(rates), 1.0)
    return PointScaling(
        runs[0].point,
        tuple(rates),
        _throughput(rates, much_lost),
        one,
        one,
        no_interval=LOST if much_lost else None,
        much_lost=much_lost,
    )


def _against(
    base: Sequence[Measurement],
    runs: Sequence[Measurement],
    much_lost: bool,
    no_interval: str | None,
) -> PointScaling:
    rates, of_base = _rates(runs), _rates(base)
    pairs = pairs_of(runs, base)
    speed_up = paired_ratio_estimate(*pairs) if pairs else ratio_estimate(rates, of_base)
    detectable = detectable_pair_ratio(*pairs) if pairs else detectable_ratio(rates, of_base)
    if no_interval:
        speed_up, detectable = without_interval(speed_up), None
    return PointScaling(
        point=runs[0].point,
        samples_per_s=tuple(rates),
        throughput=_throughput(rates, much_lost),
        speed_up=speed_up,
        efficiency=scaled(speed_up, base[0].point.ranks / runs[0].point.ranks),
        is_paired=pairs is not None and not no_interval,
        detectable=detectable,
        no_interval=no_interval,
        much_lost=much_lost,
    )


def _rates(runs: Iterable[Measurement]) -> list[float]:
    return [run.samples_per_s for run in runs if run.samples_per_s is not None]

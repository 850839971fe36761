"""Throughput, speed-up and efficiency of each point of an experiment against its base case.

Runs that start near each other have in common what the machine was like then. Their ratio is free of it,
as is that of two plots of one block (Fisher, "The Design of Experiments", 1935, ch. 4).
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


MUCH_LOST = 0.02
"""Of the runs of a size: they may have been the slow ones, as where a time limit ended them.

Where the slowest one of 30 is lost, 91 of 100 intervals cover the truth (`make bench-coverage`)."""
LOST = "runs that were lost may have been the slow ones"
SLOWER = "runs slow down over time, so means depend on their length"
OTHER_DAYS = "it was measured on other days than the base"
MOSTLY_OTHER_DAYS = "it was mostly measured on other days than the base"
OTHER_HOURS = "it was measured at other hours than the base"
APART_S = 1800.0
"""Between the mean starts of two sizes whose runs do not take turns; machines are not the same then."""
IN_TURNS = 0.25
"""Of their runs, two sizes that take turns have no more in advance of each other, and one run besides."""


@dataclass(frozen=True)
class PointScaling:
    """What one point gave. `samples_per_s` has each run's throughput, of which the mean is geometric.

    `speed_up` is the throughput over the base's, for strong and weak scaling alike; `efficiency`
    is the speed-up over how many times the ranks of the base there are (1 is ideal). `is_paired` says that
    the interval is of pairs in blocks (`blocks`); `detectable` is the least ratio to what a speed-up may
    be held against that such runs would mostly have shown (`detectable`). `no_interval` says why numbers
    have none although there are several runs.
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
    """Return whether so many runs of a size ended without a result; `states` counts them all by state."""
    ended = sum(states.values()) - states.get("pending", 0) - states.get("unfinished", 0)
    return ended > 0 and ended - states.get("completed", 0) >= MUCH_LOST * ended


def lost_runs(*sizes: Iterable[Measurement]) -> str | None:
    """Return why numbers of these runs have no interval, if too many of a size are not among them."""
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
    """Return the same mean, of which nobody knows how far off it may be."""
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
    """Return why runs of two sizes may differ by when they were measured; None where they took turns."""
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
    """Return by how much more of its runs one size is in advance of the other at most.

    It is the distance of Kolmogorov and Smirnov between starts, each in order.
    """
    return max(
        abs(bisect_right(one, at) / len(one) - bisect_right(other, at) / len(other))
        for at in (*one, *other)
    )


def _slower(*sizes: Sequence[Measurement]) -> str | None:
    """Return why means of two sizes may differ by how long runs are; None where their runs stay as fast."""
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

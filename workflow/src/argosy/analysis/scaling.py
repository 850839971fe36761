"""Throughput, speed-up and efficiency of each point of an experiment against its base case."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from argosy.analysis.blocks import pairs_of
from argosy.analysis.detectable import detectable_pair_ratio, detectable_ratio
from argosy.analysis.measurements import Measurement, Point
from argosy.analysis.statistics import (
    Estimate,
    geometric_mean_estimate,
    paired_ratio_estimate,
    ratio_estimate,
    scaled,
)


@dataclass(frozen=True)
class PointScaling:
    """What one point gave. `samples_per_s` has each run's throughput, of which the mean is geometric.

    `speed_up` is the throughput over the base's, for strong and weak scaling alike; `efficiency`
    is the speed-up over how many times the ranks of the base there are (1 is ideal). `is_paired` says that
    the interval is of pairs in blocks (`blocks`); `detectable` is the least ratio to what a speed-up may
    be held against that such runs would mostly have shown (`detectable`).
    """

    point: Point
    samples_per_s: tuple[float, ...]
    throughput: Estimate
    speed_up: Estimate
    efficiency: Estimate
    is_paired: bool = False
    detectable: float | None = None


def scaling(runs: Iterable[Measurement]) -> list[PointScaling]:
    """Return the points of one experiment's runs, smallest first; runs without throughput are left out.

    The base is the point with the fewest ranks; its speed-up and efficiency are 1 by definition
    and have no interval.
    """
    by_point: defaultdict[Point, list[Measurement]] = defaultdict(list)
    for run in runs:
        if run.samples_per_s is not None:
            by_point[run.point].append(run)
    base = min(by_point, default=None)
    return [
        _base(point, _rates(of_point))
        if point == base
        else _against(by_point[base], point, of_point)
        for point, of_point in sorted(by_point.items())
        if base is not None
    ]


def _base(point: Point, rates: Sequence[float]) -> PointScaling:
    one = Estimate(len(rates), 1.0)
    return PointScaling(point, tuple(rates), geometric_mean_estimate(rates), one, one)


def _against(
    base: Sequence[Measurement], point: Point, runs: Sequence[Measurement]
) -> PointScaling:
    rates, of_base = _rates(runs), _rates(base)
    pairs = pairs_of(runs, base)
    speed_up = paired_ratio_estimate(*pairs) if pairs else ratio_estimate(rates, of_base)
    return PointScaling(
        point=point,
        samples_per_s=tuple(rates),
        throughput=geometric_mean_estimate(rates),
        speed_up=speed_up,
        efficiency=scaled(speed_up, base[0].point.ranks / point.ranks),
        is_paired=pairs is not None,
        detectable=detectable_pair_ratio(*pairs) if pairs else detectable_ratio(rates, of_base),
    )


def _rates(runs: Iterable[Measurement]) -> list[float]:
    return [run.samples_per_s for run in runs if run.samples_per_s is not None]

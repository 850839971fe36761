"""Throughput, speed-up and efficiency of each point of an experiment against its base case."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from argosy.analysis.measurements import Measurement, Point
from argosy.analysis.statistics import Estimate, geometric_mean_estimate, ratio_estimate, scaled


@dataclass(frozen=True)
class PointScaling:
    """What one point gave. `samples_per_s` has each run's throughput, of which the mean is geometric.

    `speed_up` is the throughput over the base's, for strong and weak scaling alike; `efficiency`
    is the speed-up over how many times the ranks of the base there are (1 is ideal).
    """

    point: Point
    samples_per_s: tuple[float, ...]
    throughput: Estimate
    speed_up: Estimate
    efficiency: Estimate


def scaling(runs: Iterable[Measurement]) -> list[PointScaling]:
    """The points of one experiment's runs, smallest first; runs without throughput are left out.

    The base is the point with the fewest ranks; its speed-up and efficiency are 1 by definition
    and have no interval.
    """
    rates: defaultdict[Point, list[float]] = defaultdict(list)
    for run in runs:
        if run.samples_per_s is not None:
            rates[run.point].append(run.samples_per_s)
    by_point = sorted(rates.items())
    return [_against(by_point[0], point, of_point) for point, of_point in by_point]


def _against(
    base: tuple[Point, Sequence[float]], point: Point, rates: Sequence[float]
) -> PointScaling:
    base_point, base_rates = base
    is_base = point == base_point
    speed_up = Estimate(len(rates), 1.0) if is_base else ratio_estimate(rates, base_rates)
    return PointScaling(
        point=point,
        samples_per_s=tuple(rates),
        throughput=geometric_mean_estimate(rates),
        speed_up=speed_up,
        efficiency=scaled(speed_up, base_point.ranks / point.ranks),
    )

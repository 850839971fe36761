"""How many nodes to ask for: a decision among the measured sizes, by their intervals."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from argosy.analysis.measurements import Point
from argosy.analysis.scaling import without_interval
from argosy.analysis.statistics import Estimate, ratio_estimate, scaled

_HARDLY = 0.05
"""A share of the time that few would pay more nodes for."""


class MeasuredSize(Protocol):
    """A size with the throughput of its runs."""

    @property
    def nodes(self) -> int: ...
    @property
    def ranks(self) -> int: ...
    @property
    def ranks_per_node(self) -> int: ...
    @property
    def runs_samples_per_s(self) -> list[float]: ...
    @property
    def throughput_samples_per_s(self) -> Estimate | None: ...
    @property
    def speed_up(self) -> Estimate | None: ...
    @property
    def no_interval(self) -> str | None: ...


@dataclass(frozen=True)
class Advice:
    """Sizes to ask for, of those measured.

    `fastest` has the highest mean throughput. `for_time` is the smallest size that is not shown to be
    slower; `for_node_hours` the smallest that is not shown to take more node-hours than the cheapest. Sizes
    without an interval are left out as `not_compared`, unless all are: then means decide, `by_means`.
    """

    fastest: Point
    for_time: Point
    for_node_hours: Point
    largest_over_for_time: Estimate
    """The throughput of the largest size that is compared; 1 where both are one."""
    node_hours: Estimate
    """Those of `for_time` over those of `for_node_hours`."""
    nearly: Point | None = None
    """The smallest size that takes hardly longer than `for_time`; None where no smaller one does."""
    nearly_longer: float = 0.0
    """By which share it takes longer, by the means."""
    not_compared: list[Point] = field(default_factory=list)
    by_means: bool = False


def advise(sizes: Sequence[MeasuredSize]) -> Advice | None:
    """Return what to ask for of an experiment's sizes, by ranks; None of fewer than two measured ones."""
    measured = [one for one in sizes if one.throughput_samples_per_s]
    if len(measured) < 2:
        return None
    shown = [one for one in measured[1:] if one.speed_up and one.speed_up.low is not None]
    known = [measured[0], *shown] if shown else measured
    base, by_nodes = known[0], sorted(known, key=lambda one: (one.nodes, one.ranks))
    fastest = max(known, key=_mean)
    cheapest = max(known, key=lambda one: _mean(one) / one.nodes)
    for_time = next(one for one in by_nodes if not _is_more(_faster(fastest, one, base)))
    for_node_hours = next(one for one in by_nodes if not _is_more(_node_hours(one, cheapest, base)))
    nearly = next(one for one in by_nodes if _longer(one, for_time) <= _HARDLY)
    return Advice(
        fastest=_point(fastest),
        for_time=_point(for_time),
        for_node_hours=_point(for_node_hours),
        largest_over_for_time=_faster(known[-1], for_time, base),
        node_hours=_node_hours(for_time, for_node_hours, base),
        nearly=_point(nearly) if nearly.nodes < for_time.nodes else None,
        nearly_longer=_longer(nearly, for_time),
        not_compared=[_point(one) for one in measured if one not in known],
        by_means=not shown,
    )


def _mean(size: MeasuredSize) -> float:
    assert size.throughput_samples_per_s
    return size.throughput_samples_per_s.mean


def _longer(one: MeasuredSize, other: MeasuredSize) -> float:
    return _mean(other) / _mean(one) - 1


def _point(size: MeasuredSize) -> Point:
    return Point(size.ranks, size.nodes, size.ranks_per_node)


def _is_more(ratio: Estimate) -> bool:
    return (ratio.mean if ratio.low is None else ratio.low) > 1


def _faster(one: MeasuredSize, other: MeasuredSize, base: MeasuredSize) -> Estimate:
    """Return the throughput of `one` over that of `other`; against the base it is the speed-up."""
    if one is other:
        return Estimate(len(one.runs_samples_per_s), 1.0)
    if other is base and one.speed_up:
        return one.speed_up
    if one is base and other.speed_up:
        return _inverse(other.speed_up)
    found = ratio_estimate(one.runs_samples_per_s, other.runs_samples_per_s)
    return without_interval(found) if one.no_interval or other.no_interval else found


def _node_hours(one: MeasuredSize, other: MeasuredSize, base: MeasuredSize) -> Estimate:
    """Return the node-hours of `one` over those of `other`, for as many samples."""
    return scaled(_faster(other, one, base), one.nodes / other.nodes)


def _inverse(ratio: Estimate) -> Estimate:
    low, high = (None if end is None else 1 / end for end in (ratio.high, ratio.low))
    return Estimate(ratio.n, 1 / ratio.mean, low, high)

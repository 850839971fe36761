"""How many nodes to ask for: a decision among the measured sizes, by their intervals."""

from collections.abc import Sequence

from argosy.report.runs.measurements import Point
from argosy.report.runs.scaling import without_interval
from argosy.report.statistics.estimates import Estimate, ratio_estimate, scaled
from argosy.report.summary.models import Advice, PointSummary

_HARDLY = 0.05
"""A share of the time that few would pay more nodes for."""


def advise(sizes: Sequence[PointSummary]) -> Advice | None:
    """Return what to ask for of an experiment's sizes, by ranks; None of fewer than two measured ones."""
    measured = [one for one in sizes if one.throughput_samples_per_s]
    if len(measured) < 2:
        return None
    shown = [one for one in measured[1:] if one.speed_up and one.speed_up.low is not None]
    known = [measured[0], *shown] if shown else measured
    base, by_nodes = known[0], sorted(known, key=lambda one: (one.nodes, one.ranks))
    fastest = max(known, key=_mean)
    cheapest = max(known, key=lambda one: _mean(one) / one.nodes)
    as_fast = [one for one in by_nodes if not _is_more(_faster(fastest, one, base))]
    # A size whose runs scatter so that it may be as slow as the base is no speed-up.
    for_time = next(one for one in as_fast if one is base or _is_more(_faster(one, base, base)))
    for_node_hours = next(one for one in by_nodes if not _is_more(_node_hours(one, cheapest, base)))
    nearly = next(one for one in by_nodes if _longer(one, for_time) <= _HARDLY)
    return Advice(
        fastest=_point(fastest),
        for_time=_point(for_time),
        for_node_hours=_point(for_node_hours),
        largest_over_for_time=_faster(known[-1], for_time, base),
        node_hours=_node_hours(for_time, for_node_hours, base),
        charged=_charged(for_time, for_node_hours),
        nearly=_point(nearly) if nearly.nodes < for_time.nodes else None,
        nearly_longer=_longer(nearly, for_time),
        not_compared=[_point(one) for one in measured if one not in known],
        by_means=not shown,
    )


def _mean(size: PointSummary) -> float:
    assert size.throughput_samples_per_s
    return size.throughput_samples_per_s.mean


def _longer(one: PointSummary, other: PointSummary) -> float:
    return _mean(other) / _mean(one) - 1


def _point(size: PointSummary) -> Point:
    return Point(size.ranks, size.nodes, size.ranks_per_node)


def _is_more(ratio: Estimate) -> bool:
    return (ratio.mean if ratio.low is None else ratio.low) > 1


def _faster(one: PointSummary, other: PointSummary, base: PointSummary) -> Estimate:
    """Return the throughput of `one` over that of `other`; against the base it is the speed-up."""
    if one is other:
        return Estimate(len(one.runs_samples_per_s), 1.0)
    if other is base and one.speed_up:
        return one.speed_up
    if one is base and other.speed_up:
        return _inverse(other.speed_up)
    found = ratio_estimate(one.runs_samples_per_s, other.runs_samples_per_s)
    return without_interval(found) if one.no_interval or other.no_interval else found


def _node_hours(one: PointSummary, other: PointSummary, base: PointSummary) -> Estimate:
    """Return the node-hours of `one` over those of `other`, for as many samples."""
    return scaled(_faster(other, one, base), one.nodes / other.nodes)


def _charged(one: PointSummary, other: PointSummary) -> float | None:
    """Return the charged node-hours of `one` over those of `other`; None where they are not known."""
    here, there = (each.costs and each.costs.charged_node_hours for each in (one, other))
    return here.mean / there.mean if here and there else None


def _inverse(ratio: Estimate) -> Estimate:
    low, high = (None if end is None else 1 / end for end in (ratio.high, ratio.low))
    return Estimate(ratio.n, 1 / ratio.mean, low, high)

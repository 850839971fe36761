"""The answer of an experiment: how far it scales, and how many nodes to use."""

from collections.abc import Iterator, Sequence

from argosy.report import sizes as size_names
from argosy.report.numbers import interval, mean_text, number, percent
from argosy.report.runs.measurements import Point
from argosy.report.runs.scaling import without_interval
from argosy.report.statistics.estimates import Estimate, ratio_estimate, scaled
from argosy.report.summary.models import ExperimentSummary, PointSummary
from argosy.report.summary.parts import Advice
from argosy.report.topics.losses import largest_loss
from argosy.report.topics.scaling import findings

_HARDLY = 0.05
"""Relative increase in time that is hardly worth more nodes."""


def advise(sizes: Sequence[PointSummary]) -> Advice | None:
    """Recommend some of an experiment's sizes, sorted by ranks; None for fewer than two measured ones."""
    measured = [one for one in sizes if one.throughput_samples_per_s]
    if len(measured) < 2:
        return None
    shown = [one for one in measured[1:] if one.speed_up and one.speed_up.low is not None]
    # Runs that all agree need no interval.
    exact = [one for one in measured[1:] if _agree(one) and _agree(measured[0])]
    known = [one for one in measured if one is measured[0] or one in shown or one in exact]
    known = known if shown else measured
    base, by_nodes = known[0], sorted(known, key=lambda one: (one.nodes, one.ranks))
    fastest = max(known, key=_mean)
    cheapest = max(known, key=lambda one: _mean(one) / one.nodes)
    as_fast = [one for one in by_nodes if not _is_more(_faster(fastest, one, base))]
    # A size that is not significantly faster than the base is not advised, and hides no other.
    faster = (one for one in as_fast if one is not base and _is_more(_faster(one, base, base)))
    for_time = next(faster, base)
    for_node_hours = next(one for one in by_nodes if not _is_more(_node_hours(one, cheapest, base)))
    nearly = next(one for one in by_nodes if 0 <= _longer(one, for_time) <= _HARDLY)
    return Advice(
        fastest=fastest.point,
        for_time=for_time.point,
        for_node_hours=for_node_hours.point,
        largest_over_for_time=_faster(known[-1], for_time, base),
        node_hours=_node_hours(for_time, for_node_hours, base),
        charged=_charged(for_time, for_node_hours),
        nearly=nearly.point if nearly.nodes < for_time.nodes else None,
        nearly_longer=_longer(nearly, for_time),
        not_compared=[one.point for one in measured if one not in known],
        by_means=not shown,
    )


def _agree(size: PointSummary) -> bool:
    runs = size.runs_samples_per_s
    return len(runs) > 1 and len({*runs}) == 1 and not size.no_interval


def _mean(size: PointSummary) -> float:
    assert size.throughput_samples_per_s
    return size.throughput_samples_per_s.mean


def _longer(one: PointSummary, other: PointSummary) -> float:
    return _mean(other) / _mean(one) - 1


def _is_more(ratio: Estimate) -> bool:
    return (ratio.mean if ratio.low is None else ratio.low) > 1


def _faster(one: PointSummary, other: PointSummary, base: PointSummary) -> Estimate:
    """Return the throughput of `one` relative to `other`; for the base it is the speed-up."""
    if one is other:
        return Estimate(len(one.runs_samples_per_s), 1.0)
    if other is base and one.speed_up:
        return one.speed_up
    if one is base and other.speed_up:
        return _inverse(other.speed_up)
    found = ratio_estimate(one.runs_samples_per_s, other.runs_samples_per_s)
    return without_interval(found) if one.no_interval or other.no_interval else found


def _node_hours(one: PointSummary, other: PointSummary, base: PointSummary) -> Estimate:
    """Return the node-hours of `one` relative to `other`, for equal numbers of samples."""
    return scaled(_faster(other, one, base), one.nodes / other.nodes)


def _charged(one: PointSummary, other: PointSummary) -> float | None:
    """Return the charged node-hours of `one` relative to `other`; None if unknown."""
    here, there = (each.costs and each.costs.charged_node_hours for each in (one, other))
    return here.mean / there.mean if here and there else None


def _inverse(ratio: Estimate) -> Estimate:
    low, high = (None if end is None else 1 / end for end in (ratio.high, ratio.low))
    return Estimate(ratio.n, 1 / ratio.mean, low, high)


ALIKE = 1.05
"""Ratio of node-hours below which they count as equal."""


def answer(experiment: ExperimentSummary) -> list[str]:
    """Describe how far the experiment scales, from measured sizes only; of one size its only finding."""
    if experiment.advice:
        return [*_speed(experiment, experiment.advice)]
    found = findings(experiment)
    return found if experiment.allreduces else found[:1]


def advice(experiment: ExperimentSummary) -> list[str]:
    """Recommend numbers of nodes, or a second measurement if only one size has a throughput."""
    if experiment.advice:
        return [*_advice(experiment, experiment.advice)]
    return ["Measure a second size to learn how many nodes to take."] if experiment.base else []


def advised(experiment: ExperimentSummary, size: PointSummary) -> list[str]:
    """Return the purposes that a size is advised for: time, node-hours, both or none."""
    found = experiment.advice
    if not found:
        return []
    chosen = {"for time": found.for_time, "for node-hours": found.for_node_hours}
    return [why for why, one in chosen.items() if one == size.point]


def _speed(experiment: ExperimentSummary, advice: Advice) -> Iterator[str]:
    """Yield the speed-up of the size advised for time, and remarks on larger sizes."""
    measured = [one for one in experiment.points if one.throughput_samples_per_s]
    base, largest = measured[0], measured[-1]
    chosen = point_of(experiment, advice.for_time)
    skipped = [point_of(experiment, point) for point in advice.not_compared]
    compared = [one for one in measured if one not in skipped][-1]
    if chosen is base:
        yield _no_speed_up(experiment, base, point_of(experiment, advice.fastest))
    else:
        yield _faster_sentence(experiment, chosen, base)
        if compared.ranks > chosen.ranks:
            yield _of_larger(experiment, compared, advice.largest_over_for_time)
    for one in skipped:
        assert one.speed_up
        yield f"{size_names.size(experiment, one)}: not compared ({_within(one.speed_up, one, base)})."
    beyond = [one for one in experiment.sizes if one.ranks > largest.ranks]
    without = f" ({size_names.size(experiment, beyond[0])}: no run counts)" if beyond else ""
    yield f"Beyond {size_names.size(experiment, largest)} nothing was measured{without}."
    loss = largest_loss(experiment)
    if loss:
        yield f"On {size_names.size(experiment, largest)} the main loss is {loss.what}."


def _faster_sentence(
    experiment: ExperimentSummary, chosen: PointSummary, base: PointSummary
) -> str:
    assert chosen.speed_up and chosen.efficiency
    times = f"{mean_text(chosen.speed_up)} times"
    said = f"{'is' if chosen.nodes == 1 else 'are'} {times} as fast as"
    if experiment.scaling == "weak":
        said = f"{_gives(chosen)} {times} the throughput of"
    return (
        f"{size_names.size(experiment, chosen)} {said} {size_names.size(experiment, base)} "
        f"({_within(chosen.speed_up, chosen, base)}), at {percent(chosen.efficiency.mean)} efficiency."
    )


def _no_speed_up(experiment: ExperimentSummary, base: PointSummary, fastest: PointSummary) -> str:
    if fastest is base:
        return f"No larger size is significantly faster than {size_names.size(experiment, base)}."
    assert fastest.speed_up
    seen = ""
    if fastest.detectable_ratio is not None:
        least = percent(fastest.detectable_ratio - 1)
        seen = f" These runs could only detect differences above {least}."
    return (
        f"No significant speed-up: {size_names.size(experiment, fastest)} {_gives(fastest)} "
        f"{mean_text(fastest.speed_up)} times the throughput of {size_names.size(experiment, base)} "
        f"({_within(fastest.speed_up, fastest, base)}).{seen}"
    )


def _of_larger(experiment: ExperimentSummary, larger: PointSummary, ratio: Estimate) -> str:
    larger_is = f"{size_names.size(experiment, larger)} {'is' if larger.nodes == 1 else 'are'}"
    if (ratio.mean if ratio.high is None else ratio.high) < 1:
        return f"{larger_is} slower than that."
    return f"{larger_is} not significantly faster than that."


def _advice(experiment: ExperimentSummary, advice: Advice) -> Iterator[str]:
    for_time = size_names.size(experiment, point_of(experiment, advice.for_time))
    for_node_hours = size_names.size(experiment, point_of(experiment, advice.for_node_hours))
    begin = "Based on means only, take" if advice.by_means else "Take"
    if advice.for_time == advice.for_node_hours:
        yield f"{begin} {for_time}, whether time matters or node-hours do."
        return
    ratio = advice.node_hours
    details = [] if ratio.low is None else [interval(ratio)]
    if advice.charged and not 1 / ALIKE < advice.charged / ratio.mean < ALIKE:
        details.append(f"{number(advice.charged)} times the charged node-hours")
    within = f" ({'; '.join(details)})" if details else ""
    times = f"{mean_text(ratio)} times the node-hours{within}"
    if max(ratio.mean if ratio.high is None else ratio.high, advice.charged or 0.0) <= ALIKE:
        yield (
            f"{begin} {for_time}, whether time matters or node-hours do: {times} of {for_node_hours}."
        )
        return
    if ratio.low is not None and ratio.low <= 1:
        yield (
            f"{begin} {for_time} if time matters, {for_node_hours} if node-hours do; the difference in "
            f"node-hours is not significant (ratio {'; '.join(details)})."
        )
        return
    yield (
        f"{begin} {for_time} if time matters, at {times}; take {for_node_hours} if node-hours do."
    )
    if advice.nearly:
        nearly = size_names.size(experiment, point_of(experiment, advice.nearly))
        yield f"{nearly} would take only {percent(advice.nearly_longer, 1)} longer, comparing means."


def _within(ratio: Estimate, one: PointSummary, base: PointSummary) -> str:
    if ratio.low is not None:
        return interval(ratio)
    if one.no_interval:
        return f"no interval: {one.no_interval}"
    is_single = min(len(one.runs_samples_per_s), len(base.runs_samples_per_s)) == 1
    return "single runs, no interval" if is_single else "runs agree to the last digit, no interval"


def _gives(point: PointSummary) -> str:
    return "gives" if point.nodes == 1 else "give"


def point_of(experiment: ExperimentSummary, point: Point) -> PointSummary:
    """Return an experiment's measurements at a point."""
    return next(one for one in experiment.points if one.point == point)

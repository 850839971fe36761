"""Scaling of an experiment, in sentences and columns of the proposal table."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from argosy.report import sizes
from argosy.report.numbers import count, interval, mean_text, percent
from argosy.report.sizes import same_width, size, states
from argosy.report.statistics.estimates import Estimate
from argosy.report.summary.models import ExperimentSummary, PointSummary
from argosy.report.table import (
    UNKNOWN,
    Cell,
    Column,
    Quantity,
    column,
    estimate,
    figure,
    known,
    size_columns,
)
from argosy.report.topics.allreduces import sentences
from argosy.report.topics.laws.says import Laws, MeasuredSizes, sentence
from argosy.report.topics.losses import largest_loss, loss_sentence

CLEARLY_ABOVE = 1.05
"""Efficiency without an interval above which a sentence mentions it."""


def findings(experiment: ExperimentSummary) -> list[str]:
    """Return findings on scaling: a sentence per point, the base first, then losses and laws."""
    base = next((one for one in experiment.points if one.point == experiment.base), None)
    if base is None or base.throughput_samples_per_s is None:
        if experiment.allreduces:
            return sentences(experiment)
        return [f"No throughput was measured; runs: {states(experiment.states)}."]
    others = [one for one in experiment.points if one.speed_up and one is not base]
    alone = "" if others else " There is no other size to compare it with."
    law = sentence(Laws(experiment.laws, experiment.no_law), measured_sizes(experiment))
    loss = largest_loss(experiment)
    unseen = _unseen(experiment, base, others[-1]) if others else None
    return [
        _base_sentence(experiment, base) + alone,
        *(_comparison(experiment, base, other) for other in others),
        *([unseen] if unseen else []),
        *([loss_sentence(experiment, base, loss)] if loss else []),
        *([law] if law else []),
    ]


def _unseen(experiment: ExperimentSummary, base: PointSummary, largest: PointSummary) -> str | None:
    """Return a sentence on the detectable difference at the largest size; None if unknown."""
    if largest.detectable_ratio is None:
        return None
    here, there = len(largest.runs_samples_per_s), len(base.runs_samples_per_s)
    runs = (
        f"{count(here, 'run')} per size"
        if here == there
        else f"{count(here, 'run')} against {there}"
    )
    return (
        f"With {runs}, this study can detect differences above "
        f"{percent(largest.detectable_ratio - 1, 1)} between {size(experiment, base)} and "
        f"{size(experiment, largest)} (80 % power)."
    )


def measured_sizes(experiment: ExperimentSummary) -> MeasuredSizes:
    """Return the range of sizes with a throughput, such as `1 to 4 nodes`; there is at least one."""
    measured = [point for point in experiment.points if point.throughput_samples_per_s]
    ranks = sorted(point.ranks for point in measured)
    by_nodes = same_width(experiment)
    numbers = sorted(point.nodes for point in measured) if by_nodes else ranks
    most = count(numbers[-1], "node" if by_nodes else "rank")
    said = most if numbers[0] == numbers[-1] else f"{numbers[0]:,} to {most}"
    return MeasuredSizes(said, ranks[0], ranks[-1])


def _base_sentence(experiment: ExperimentSummary, base: PointSummary) -> str:
    rate = base.throughput_samples_per_s
    assert rate is not None
    spread = (
        "one run, so no interval"
        if rate.n == 1
        else _interval_of(rate, f"n = {rate.n}", base.no_interval)
    )
    verb = "gives" if base.nodes == 1 else "give"
    return (
        f"{size(experiment, base)} {verb} {mean_text(rate)} {experiment.unit} per second ({spread})."
        f"{sizes.lost(experiment, base)}"
    )


def _comparison(experiment: ExperimentSummary, base: PointSummary, point: PointSummary) -> str:
    speed_up, efficiency = point.speed_up, point.efficiency
    assert speed_up is not None and efficiency is not None
    verb = "gives" if point.nodes == 1 else "give"
    return (
        f"{size(experiment, point)} {verb} {mean_text(speed_up)} times the throughput of "
        f"{size(experiment, base)} ({_spread(speed_up, base, point.no_interval)}): "
        f"efficiency {percent(efficiency.mean)}.{_no_gain(speed_up)}"
        f"{_more_than_ideal(efficiency, point.no_interval)}"
        f"{sizes.lost(experiment, point)}"
    )


def _no_gain(speed_up: Estimate) -> str:
    if speed_up.low is None or speed_up.high is None or not speed_up.low <= 1 <= speed_up.high:
        return ""
    return " No significant speed-up."


def _more_than_ideal(efficiency: Estimate, no_interval: str | None) -> str:
    """Return a sentence if the efficiency is significantly above 100 %, or clearly without an interval."""
    if no_interval:
        is_above, surely = efficiency.mean > CLEARLY_ABOVE, ""
    else:
        is_above, surely = (efficiency.low or 0.0) > 1, ", beyond chance"
    if not is_above:
        return ""
    return (
        f" The efficiency is above ideal{surely}. Possible causes are caches, or a base slowed "
        "down by low clocks or another job."
    )


def _spread(speed_up: Estimate, base: PointSummary, no_interval: str | None) -> str:
    assert base.throughput_samples_per_s is not None
    base_n = base.throughput_samples_per_s.n
    runs = f"n = {speed_up.n}" if speed_up.n == base_n else f"n = {speed_up.n} against {base_n}"
    is_single = min(speed_up.n, base_n) == 1
    return f"{runs}, so no interval" if is_single else _interval_of(speed_up, runs, no_interval)


def _interval_of(estimate: Estimate, runs: str, no_interval: str | None) -> str:
    """Describe an interval, or why there is none."""
    if no_interval:
        return f"{runs}, no interval: {no_interval}"
    if estimate.low is None:
        return f"{runs}, and all agree to the last digit"
    return f"95 % interval {interval(estimate)}, {runs}"


def columns(
    experiment: ExperimentSummary, marks: Callable[[PointSummary], Sequence[str]]
) -> list[Column]:
    """Return the columns of throughput, speed-up and efficiency; `marks` returns labels of a size."""
    points, unit = experiment.points, experiment.unit
    nodes, ranks = size_columns(points)
    marked = [
        replace(cell, value=point.nodes, marks=tuple(marks(point)))
        for cell, point in zip(nodes.cells, points, strict=True)
    ]
    return [
        replace(nodes, cells=marked),
        ranks,
        column(
            points, "Runs", lambda one: sizes.counted(experiment, one), terminal="n", paper="Runs"
        ),
        column(
            points,
            f"{unit.capitalize()}/s",
            _rate,
            terminal=f"{unit}/s",
            paper=f"{unit.capitalize()}/s",
        ),
        column(
            points,
            "Speed-up",
            lambda one: estimate(one.speed_up),
            terminal="speed-up",
            paper="Speed-up",
        ),
        column(points, "", lambda one: interval(one.speed_up), terminal="interval"),
        column(
            points,
            "Efficiency",
            lambda one: estimate(one.efficiency, "percent"),
            terminal="efficiency",
            paper="Efficiency",
        ),
        column(points, "Detectable difference", _detectable),
    ]


def _rate(point: PointSummary) -> Cell:
    median = point.median_samples_per_s
    below = f"median {mean_text(median)} ({interval(median)})" if median else ""
    return replace(estimate(point.throughput_samples_per_s), below=below)


def _detectable(point: PointSummary) -> Cell:
    ratio = point.detectable_ratio
    return figure(ratio, percent(ratio - 1, 1)) if ratio else UNKNOWN


def quantities(point: PointSummary) -> Iterator[Quantity]:
    """Yield the rows of summary.csv."""
    return known(
        ("throughput", "samples/s", point.throughput_samples_per_s),
        ("median_throughput", "samples/s", point.median_samples_per_s),
        ("speed_up", "1", point.speed_up),
        ("efficiency", "1", point.efficiency),
    )

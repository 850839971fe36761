"""The numbers of the summary as a tidy CSV file: a row for each point and quantity."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from argosy.report.statistics.estimates import Estimate
from argosy.report.summary.models import ExperimentSummary, PointSummary, Summary
from argosy.report.summary.parts import (
    ContainerCostSummary,
    CostSummary,
    PointTimeline,
    PredictedPoint,
    StallSummary,
    UsageSummary,
)

HEADER = (
    "experiment",
    "scaling",
    "nodes",
    "ranks_per_node",
    "ranks",
    "quantity",
    "unit",
    "n",
    "mean",
    "low",
    "high",
)

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a formula may begin with; the last four are the same, in full width."""

_Sized = PointSummary | StallSummary | PointTimeline | ContainerCostSummary
Quantity = tuple[str, str, Estimate]
"""Its name, unit and value."""


def summary_csv(summary: Summary) -> str:
    """`summary`'s numbers as CSV text. Ratios have the unit 1; what is not known is empty."""
    return csv_text([HEADER, *_rows(summary)])


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Return rows as CSV. Text that a spreadsheet would take for a formula begins with an apostrophe."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _rows(summary: Summary) -> Iterator[Sequence[object]]:
    for experiment in summary.experiments:
        for size, (quantity, unit, value) in _of_experiment(experiment):
            estimate = (value.n, value.mean, value.low, value.high)
            yield experiment.experiment, experiment.scaling, *size, quantity, unit, *estimate


def _cell(value: object) -> object:
    """Return the value, with an apostrophe before what would be a formula; numbers stay what they are.

    See https://owasp.org/www-community/attacks/CSV_Injection.
    """
    if not isinstance(value, str):
        return value
    # Python's writer does not quote this one, and readers begin a row there.
    text = value.replace("\r", " ")
    return f"'{text}" if value.startswith(_FORMULA) else text


def _of_experiment(experiment: ExperimentSummary) -> Iterator[tuple[Sequence[int], Quantity]]:
    """Yield each quantity with its nodes, ranks per node and ranks."""
    for point in experiment.points:
        yield from ((_size(point), each) for each in _quantities(point))
    for stalls in experiment.stalls:
        for part, share in stalls.shares.items():
            yield _size(stalls), (f"stall_{part}", "1", share)
    for found in experiment.container_costs:
        yield _size(found), ("container_cost", "1", found.cost)
    for timeline in experiment.timelines:
        for part, seconds in timeline.seconds_per_step.items():
            yield _size(timeline), (f"timeline_{part}", "s/step", seconds)
    for predicted in experiment.prediction.points if experiment.prediction else ():
        size = (predicted.nodes, predicted.ranks // predicted.nodes, predicted.ranks)
        yield from ((size, each) for each in _predicted(predicted))


def _size(point: _Sized) -> tuple[int, int, int]:
    return point.nodes, point.ranks_per_node, point.ranks


def _predicted(point: PredictedPoint) -> Iterator[Quantity]:
    if point.step_s:
        yield "predicted_step", "s", point.step_s
    yield "predicted_efficiency", "1", point.efficiency
    yield "predicted_throughput", "samples/s", point.samples_per_s
    if point.error is not None:
        yield "predicted_step_error", "1", Estimate(point.samples_per_s.n, point.error)


def _quantities(point: PointSummary) -> Iterator[Quantity]:
    yield from _known(
        ("throughput", "samples/s", point.throughput_samples_per_s),
        ("median_throughput", "samples/s", point.median_samples_per_s),
        ("speed_up", "1", point.speed_up),
        ("efficiency", "1", point.efficiency),
        ("test_accuracy", "1", point.test_accuracy),
        ("between_steps", "1", point.between_steps),
        ("flops_utilisation", "1", point.flops_utilisation),
    )
    yield from ((f"factor_{name}", "1", value) for name, value in point.factors.items())
    if point.usage:
        yield from _usage(point.usage)
    if point.costs:
        yield from _costs(point.costs)
    yield from ((f"metric_{name}", "", value) for name, value in point.metrics.items())
    runs = len(point.runs_samples_per_s)
    if point.test_accuracy and point.test_accuracy_min is not None:
        yield "test_accuracy_min", "1", Estimate(point.test_accuracy.n, point.test_accuracy_min)
    if point.weights_identical is not None:
        identical = Estimate(point.weights_compared_runs, float(point.weights_identical))
        yield "weights_identical", "1", identical
    if point.step_s is not None:
        yield "step", "s", Estimate(runs, point.step_s)
    for phase, seconds in point.phases_s_per_step.items():
        yield f"phase_{phase}", "s/step", Estimate(runs, seconds)


def _known(*quantities: tuple[str, str, Estimate | None]) -> Iterator[Quantity]:
    return ((name, unit, value) for name, unit, value in quantities if value is not None)


def _usage(used: UsageSummary) -> Iterator[Quantity]:
    yield from _known(
        ("cpu_busy", "1", used.cpu_busy),
        ("network", "B/s", used.network_bytes_per_s),
        ("gpu_busy", "1", used.gpu_busy),
        ("cpu_energy", "J", used.cpu_energy_j),
        ("gpu_energy", "J", used.gpu_energy_j),
        ("energy_per_sample", "J", used.energy_j_per_sample),
    )


def _costs(costs: CostSummary) -> Iterator[Quantity]:
    yield from _known(
        ("node_hours_of_a_million_samples", "h", costs.node_hours),
        ("charged_node_hours_of_a_million_samples", "h", costs.charged_node_hours),
        ("seconds_around_the_steady_state", "s", costs.around_s),
        ("price_of_a_million_samples", "currency", costs.price),
        ("energy_of_a_million_samples", "kWh", costs.energy_kwh),
        ("carbon_of_a_million_samples", "kg", costs.carbon_kg),
    )

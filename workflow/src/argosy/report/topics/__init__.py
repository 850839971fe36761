"""Topics of an experiment, and their order in the report.

Each module here is a topic: it computes numbers from the tables, describes them in sentences, and may draw
them. The lists in this file collect the contributions of all topics.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from argosy.report import sizes
from argosy.report.drawing import Drawing
from argosy.report.numbers import singular
from argosy.report.runs.measurements import Point
from argosy.report.runs.study_tables import StudyTables
from argosy.report.sizes import Size
from argosy.report.summary.models import ExperimentSummary, PointSummary, Summary
from argosy.report.summary.parts import Rates
from argosy.report.table import Quantity, Table
from argosy.report.topics import (
    accuracy,
    allreduces,
    answer,
    container_cost,
    costs,
    doubts,
    intervals,
    losses,
    phases,
    queue,
    runs,
    scaling,
    scaling_chart,
    slowness,
    stalls,
    timelines,
    usage,
)
from argosy.report.topics.history import says as history
from argosy.report.topics.laws import says as laws
from argosy.report.topics.prediction import says as prediction


def of_points(tables: StudyTables) -> Mapping[str, Mapping[tuple[str, Point], Any]]:
    """Compute the fields of `PointSummary` that topics fill: by field, then experiment and point."""
    return {"queue": queue.queue_waits(tables), "metrics": accuracy.recorded_metrics(tables)}


def of_experiments(tables: StudyTables) -> Mapping[str, Mapping[str, Any]]:
    """Compute the fields of `ExperimentSummary` that topics fill: by field, then experiment."""
    return {
        "stalls": stalls.stalls(tables),
        "timelines": timelines.timelines(tables),
        "allreduces": allreduces.allreduces(tables),
    }


def to_know(summary: Summary, experiment: ExperimentSummary) -> list[str]:
    """Return the sentences of *What to know*: failures first, then doubts about completed runs."""
    return [
        *runs.failures(summary, experiment),
        *runs.left_out(summary, experiment),
        *runs.not_steady(summary, experiment),
        *slowness.sentences(summary, experiment),
        *runs.far_off(summary, experiment),
        *history.slower(experiment),
        *slowness.slow_job_sentences(experiment),
        *sizes.batches(experiment),
        *costs.much_between_steps(experiment),
        *usage.unused_gpus(experiment),
        *accuracy.findings(experiment),
        *slowness.rank_sentences(summary, experiment),
        *doubts.sentences(summary, experiment),
    ]


def sentences(experiment: ExperimentSummary) -> list[str]:
    """Return the findings on scaling, containers, queues, stalls and timelines."""
    return [
        *scaling.findings(experiment),
        *container_cost.findings(experiment),
        *queue.findings(experiment),
        *stalls.findings(experiment),
        *timelines.findings(experiment),
    ]


def drawings(experiment: ExperimentSummary, currency: str | None = None) -> list[Drawing]:
    """Return all charts of an experiment; prices are in `currency`."""
    return [
        *scaling_chart.drawings(experiment),
        *phases.drawings(experiment),
        *stalls.drawings(experiment),
        *timelines.drawings(experiment),
        *prediction.drawings(experiment),
        *costs.drawings(experiment, currency),
        *history.drawings(experiment),
    ]


def first_pictures(experiment: ExperimentSummary) -> list[Drawing]:
    """Return the charts of the first screen: throughput, and phases or else efficiency."""
    found = {one.name: one for one in drawings(experiment)}
    names = ("throughput", "phases" if "phases" in found else "efficiency")
    return [found[name] for name in names if name in found]


def further_pictures(experiment: ExperimentSummary, currency: str | None) -> list[Drawing]:
    """Return the charts after the first screen; prices are in `currency`."""
    first = {one.name for one in first_pictures(experiment)}
    return [one for one in drawings(experiment, currency) if one.name not in first]


def scaling_table(experiment: ExperimentSummary, currency: str | None = None) -> Table:
    """Return the proposal table: scaling, costs and queue waits of each size; prices are in `currency`."""
    points = experiment.points
    of = [point.costs for point in points if point.costs]
    charged = " or as charged" if any(one.charged_node_hours for one in of) else ""
    said = f"; costs per million {experiment.unit}, steps only{charged}" if of else ""
    return Table(
        [
            *scaling.columns(experiment, partial(answer.advised, experiment)),
            *costs.columns(points, currency),
            *queue.columns(points),
        ],
        f"Proposal table: means with 95 % intervals{said}.",
        f"Scaling of {experiment.experiment}",
        "scaling",
        kind="dense",
        paper=f"{experiment.scaling} scaling",
    )


def first_tables(experiment: ExperimentSummary, rates: Rates) -> Iterator[Table]:
    """Yield the table that the charts of scaling link to."""
    if experiment.points and (experiment.base or not experiment.allreduces):
        yield scaling_table(experiment, rates.currency)


def further_tables(experiment: ExperimentSummary, rates: Rates) -> Iterator[Table | str]:
    """Yield the tables after losses and laws; a sentence replaces a table that cannot be made."""
    yield from phases.tables(experiment)
    yield from usage.tables(experiment, rates)
    yield from stalls.tables(experiment)
    yield from timelines.tables(experiment)
    yield from prediction.tables(experiment)
    yield from accuracy.tables(experiment, rates)


def paper_tables(experiment: ExperimentSummary) -> list[Table]:
    """Return the tables of a paper."""
    of_sizes = [scaling_table(experiment)] if experiment.points else []
    found = (*losses.tables(experiment), *stalls.tables(experiment), *prediction.tables(experiment))
    return [*of_sizes, *(one for one in found if isinstance(one, Table) and one.paper)]


def methods(summary: Summary) -> list[str]:
    """Describe the methods that this report used."""
    return [
        *runs.methods(summary),
        *slowness.methods(summary),
        *intervals.of_means(summary),
        *costs.methods(summary),
        *intervals.of_speed_ups(summary),
        *phases.methods(summary),
        *losses.methods(summary),
        *intervals.of_scaling(summary),
        *allreduces.methods(summary),
        *laws.methods(summary),
        *prediction.methods(summary),
        *stalls.methods(summary),
        *timelines.methods(summary),
        *usage.methods(summary),
        *intervals.of_bases(summary),
    ]


_OF_POINTS: Sequence[Callable[[PointSummary], Iterator[Quantity]]] = (
    scaling.quantities,
    accuracy.accuracies,
    costs.shares,
    losses.quantities,
    usage.quantities,
    costs.quantities,
    accuracy.quantities,
    phases.quantities,
)


def quantities(experiment: ExperimentSummary) -> Iterator[tuple[Size, Quantity]]:
    """Yield the rows of summary.csv with their sizes, named in the experiment's unit."""
    unit, one = experiment.unit, singular(experiment.unit)
    for size, (name, of, value) in _quantities(experiment):
        told = name.replace("samples", unit).replace("_sample", f"_{one}")
        yield size, (told, of.replace("samples", unit), value)


def _quantities(experiment: ExperimentSummary) -> Iterator[tuple[Size, Quantity]]:
    for point in experiment.points:
        yield from ((point, each) for of in _OF_POINTS for each in of(point))
    for found in experiment.stalls:
        yield from ((found, (f"stall_{part}", "1", one)) for part, one in found.shares.items())
    for cost in experiment.container_costs:
        yield cost, ("container_cost", "1", cost.cost)
    for timeline in experiment.timelines:
        for part, seconds in timeline.seconds_per_step.items():
            yield timeline, (f"timeline_{part}", "s/step", seconds)
    for predicted in experiment.prediction.points if experiment.prediction else ():
        yield from ((predicted, each) for each in prediction.quantities(predicted))

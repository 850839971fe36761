"""Test accuracy, and other metrics that programs record."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from argosy.report.numbers import of_metric, percent, percent_interval
from argosy.report.runs.measurements import Point
from argosy.report.runs.study_tables import StudyTables
from argosy.report.sizes import name_among
from argosy.report.statistics.estimates import Estimate, mean_estimate, proportion_estimate
from argosy.report.summary.models import ExperimentSummary, PointSummary
from argosy.report.summary.parts import Rates
from argosy.report.table import (
    UNKNOWN,
    Cell,
    Column,
    Quantity,
    Table,
    column,
    estimate,
    figure,
    size_columns,
)
from argosy.report.topics.doubts import DIVERGED

# The last value that a rank recorded under a name is its final one, also where it is not finite.
_FINAL = """
WITH final AS (
    SELECT experiment, run_id, rank, name, arg_max(
        CASE WHEN lower(value_text) IN ('nan', 'inf', '-inf', 'infinity', '-infinity')
            THEN CAST('nan' AS DOUBLE) ELSE value_number END,
        coalesce(at_s, 0)) AS value
    FROM metrics GROUP BY ALL
)
"""
_OUTCOMES = f"""
{_FINAL}, of_run AS (
    SELECT experiment, run_id,
        avg(value) FILTER (name = 'test_accuracy') AS accuracy,
        min(value) FILTER (name = 'weights_identical') AS identical
    FROM final WHERE name IN ('test_accuracy', 'weights_identical') GROUP BY ALL
)
SELECT experiment, nodes, ranks_per_node, ranks,
    list(accuracy ORDER BY repeat) FILTER (isfinite(accuracy)) AS accuracies,
    min(identical) AS identical, count(identical) AS compared_runs
FROM of_run JOIN runs USING (experiment, run_id)
WHERE state = 'completed'
GROUP BY ALL ORDER BY experiment, ranks, nodes
"""


@dataclass(frozen=True)
class Outcome:
    """Test accuracy of a point's runs, as shares, and whether the ranks agree.

    `weights_identical` is True if in each of the `weights_compared_runs` runs all ranks ended with the same
    weights, and None if no run compared them.
    """

    test_accuracy: Estimate | None = None
    test_accuracy_min: float | None = None
    weights_identical: bool | None = None
    weights_compared_runs: int = 0


def outcomes(tables: StudyTables) -> dict[tuple[str, Point], Outcome]:
    """Return outcomes by experiment and point, from the metrics test_accuracy and weights_identical.

    A program reports per cent if any of its accuracies is above 1: an untrained model may reach 0.1 %.
    """
    rows = tables.fetch(_OUTCOMES)
    most: defaultdict[frozenset[str], float] = defaultdict(float)
    for row in rows:
        program = _program(tables, row["experiment"])
        most[program] = max(most[program], *(row["accuracies"] or [0.0]))
    return {
        (row["experiment"], Point.of(row)): _outcome(
            row["accuracies"] or [],
            1 if most[_program(tables, row["experiment"])] <= 1 else 100,
            row["identical"],
            row["compared_runs"],
        )
        for row in rows
    }


def _program(tables: StudyTables, experiment: str) -> frozenset[str]:
    """Return the files of an experiment's program; its name in config.yaml where none were noted."""
    named = tables.setups[experiment]
    files = {name for name in named.setup.programs if not name.startswith("data ")}
    return frozenset(files or {named.experiment})


def _outcome(
    accuracies: Sequence[float], whole: int, identical: float | None, compared: int
) -> Outcome:
    shares = [one / whole for one in accuracies]
    if shares and not 0 <= min(shares) <= max(shares) <= 1:
        shares = []
    return Outcome(
        test_accuracy=proportion_estimate(shares) if shares else None,
        test_accuracy_min=min(shares, default=None),
        weights_identical=None if identical is None else identical == 1,
        weights_compared_runs=compared,
    )


ELSEWHERE = ("test_accuracy", "weights_identical")
"""Metrics with columns or sentences of their own."""

_METRICS = f"""
{_FINAL}, of_run AS (
    SELECT experiment, run_id, name,
        CASE WHEN regexp_matches(name, '^(peak|max)_') THEN max(value) ELSE avg(value) END AS value
    FROM final GROUP BY experiment, run_id, name
)
SELECT experiment, nodes, ranks_per_node, ranks, name, list(value ORDER BY repeat) AS values
FROM of_run JOIN runs USING (experiment, run_id)
WHERE state = 'completed' AND abs(value) < {DIVERGED}
GROUP BY ALL ORDER BY experiment, ranks, nodes, name
"""


def recorded_metrics(tables: StudyTables) -> Mapping[tuple[str, Point], Mapping[str, Estimate]]:
    """Return the metrics by experiment and point, then by name.

    Ranks of a run are averaged, or their maximum is taken if the name begins with `peak_` or `max_`; the
    estimate is over runs.
    """
    found: defaultdict[tuple[str, Point], dict[str, Estimate]] = defaultdict(dict)
    for row in tables.fetch(_METRICS):
        if row["name"] not in ELSEWHERE:
            point = Point.of(row)
            found[row["experiment"], point][row["name"]] = mean_estimate(row["values"])
    return found


def findings(experiment: ExperimentSummary) -> list[str]:
    """Return a sentence if accuracy falls significantly from the smallest size to the largest.

    It is significant if their intervals do not overlap.
    """
    known = [point for point in experiment.points if point.test_accuracy]
    if len(known) < 2 or not _is_below(known[-1], known[0]):
        return []
    smallest, largest = (name_among(experiment.sizes, one) for one in (known[0], known[-1]))
    return [
        f"The test accuracy is {_accuracy(known[-1])} with {largest}, and {_accuracy(known[0])} "
        f"with {smallest}. A larger global batch may need another learning rate, or more steps."
    ]


def _is_below(one: PointSummary, other: PointSummary) -> bool:
    here, there = one.test_accuracy, other.test_accuracy
    if here is None or there is None or here.high is None or there.low is None:
        return False
    return here.high < there.low


def _accuracy(point: PointSummary) -> str:
    found = point.test_accuracy
    assert found is not None
    return f"{percent(found.mean, 1)} ({percent_interval(found, 1)})"


def metric_names(experiment: ExperimentSummary) -> list[str]:
    """Return the metrics that any point of the experiment has, in order."""
    return sorted({name for point in experiment.points for name in point.metrics})


def accuracy_column(points: Sequence[PointSummary]) -> Column:
    """Return the column of test accuracies."""
    return column(
        points,
        "Accuracy",
        lambda one: estimate(one.test_accuracy, "tenths"),
        terminal="accuracy",
    )


def tables(experiment: ExperimentSummary, rates: Rates) -> Iterator[Table]:
    """Yield the tables of accuracies and of other metrics, if there are any."""
    points = experiment.points
    if any(one.test_accuracy or one.weights_identical is not None for one in points):
        yield Table(
            [
                *size_columns(points),
                accuracy_column(points),
                column(
                    points,
                    "Lowest",
                    lambda one: figure(one.test_accuracy_min, percent(one.test_accuracy_min, 1)),
                ),
                column(points, "Weights identical", _weights),
            ],
            "Final test accuracy, and whether all ranks ended with the same weights.",
            f"Accuracy of {experiment.experiment}",
        )
    if names := metric_names(experiment):
        yield _metrics(experiment, names, rates.peak_tflops_per_node)


def _weights(point: PointSummary) -> Cell:
    if point.weights_identical is None:
        return Cell("not compared")
    runs = point.weights_compared_runs
    return (
        Cell(f"yes, in {runs} of {runs} runs")
        if point.weights_identical
        else Cell("no", is_bad=True)
    )


def _metrics(experiment: ExperimentSummary, names: Sequence[str], peak: float | None) -> Table:
    points = [point for point in experiment.points if point.metrics]
    utilisation = [column(points, "FLOPs utilisation", _utilisation)] if peak else []
    of_peak = (
        f" FLOPs utilisation: the model's own operations over {peak} TFLOP/s a node."
        if peak
        else ""
    )
    return Table(
        [
            *size_columns(points),
            *utilisation,
            *(column(points, name, partial(metric_cell, name)) for name in names),
        ],
        "Metrics that the program recorded, as means over runs. A run's value is the mean over "
        f"its ranks, or the maximum if the name begins with peak or max.{of_peak}",
        f"Metrics of {experiment.experiment}",
        "metrics",
    )


def _utilisation(point: PointSummary) -> Cell:
    found = point.flops_utilisation
    return figure(found.mean, percent(found.mean, 1)) if found else UNKNOWN


def metric_cell(name: str, point: PointSummary) -> Cell:
    """Return the mean of a recorded metric with its interval."""
    found = point.metrics.get(name)
    if found is None:
        return UNKNOWN
    interval = ""
    if found.low is not None and found.high is not None:
        interval = f"{of_metric(name, found.low)} to {of_metric(name, found.high)}"
    runs = len(point.runs_samples_per_s)
    below = f"of {found.n} of {runs} runs" if found.n < runs else ""
    return Cell(of_metric(name, found.mean), found.mean, found, interval, below=below)


def accuracies(point: PointSummary) -> Iterator[Quantity]:
    """Yield the mean test accuracy, as a row of summary.csv."""
    if point.test_accuracy:
        yield "test_accuracy", "1", point.test_accuracy


def quantities(point: PointSummary) -> Iterator[Quantity]:
    """Yield the recorded metrics, the lowest accuracy and whether weights agree, as rows of summary.csv."""
    yield from ((f"metric_{name}", "", value) for name, value in point.metrics.items())
    if point.test_accuracy and point.test_accuracy_min is not None:
        yield "test_accuracy_min", "1", Estimate(point.test_accuracy.n, point.test_accuracy_min)
    if point.weights_identical is not None:
        identical = Estimate(point.weights_compared_runs, float(point.weights_identical))
        yield "weights_identical", "1", identical

"""Tables of sweeps: combinations, the fastest first."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

from argosy.report.numbers import NONE
from argosy.report.runs.study_tables import StudyTables
from argosy.report.sizes import counted, name_among
from argosy.report.summary.models import ExperimentSummary, PointSummary, Summary
from argosy.report.summary.parts import Sized, SweptPoint
from argosy.report.table import UNKNOWN, Cell, Column, Table, column, estimate
from argosy.report.topics.accuracy import metric_cell
from argosy_common.errors import plain
from argosy_common.reading import json_of

_Row = tuple[ExperimentSummary, PointSummary | None]

_QUERY = """
SELECT asked_experiment AS experiment, any_value(provenance) AS provenance FROM runs
WHERE contains(provenance, '"sweep"') GROUP BY ALL ORDER BY ALL
"""


def swept_points(tables: StudyTables) -> dict[str, SweptPoint]:
    """Read the combinations of sweeps by experiment from provenance."""
    found = {}
    for row in tables.fetch(_QUERY):
        # Another program may have written the file.
        with suppress(KeyError, TypeError, AttributeError, ValueError):
            point = json_of(row["provenance"])["experiment"]["sweep"]
            values = {plain(str(name)): plain(str(one)) for name, one in point["values"].items()}
            found[row["experiment"]] = SweptPoint(plain(str(point["of"])), values)
    return found


def tables(summary: Summary) -> Iterator[Table]:
    """Yield a table for each sweep with runs of several combinations."""
    sweeps: defaultdict[str, list[ExperimentSummary]] = defaultdict(list)
    for experiment in summary.experiments:
        if experiment.sweep:
            sweeps[experiment.sweep.of].append(experiment)
    for place, (of, experiments) in enumerate(sweeps.items(), 1):
        if len(experiments) > 1:
            yield _table(of, experiments, f"sweep-{place}")


def _table(of: str, experiments: Sequence[ExperimentSummary], name: str) -> Table:
    planned = [one for experiment in experiments for one in experiment.sizes]
    largest = max(planned, key=lambda one: (one.ranks, one.nodes))
    rows = sorted(
        ((each, _at(each, largest)) for each in experiments), key=lambda row: -_rate(row[1])
    )
    metrics = sorted({each for _, point in rows if point for each in point.metrics})
    others = {"experiment", "n", "runs", "accuracy", *(each.lower() for each in metrics)}
    values = [tuple(_values(each).items()) for each in experiments]
    # For example one combination with and without a container.
    are_alike = len({*values}) < len(values)
    # Experiments without a throughput have no unit of their own; the fastest has one.
    unit = rows[0][0].unit
    has_accuracy = any(point and point.test_accuracy for _, point in rows)
    return Table(
        [
            column(
                rows,
                "Experiment",
                lambda row: row[0].experiment,
                terminal="experiment" if are_alike else "",
            ),
            *(
                column(rows, heading, partial(_value, each), terminal=heading)
                for each in dict.fromkeys(each for row in rows for each in _values(row[0]))
                # A placeholder in braces differs from the table's other columns.
                for heading in [f"{{{each}}}" if each.lower() in others else each]
            ),
            column(rows, "Runs", _runs, terminal="n"),
            _column(
                rows, f"{unit.capitalize()}/s", lambda one: estimate(one.throughput_samples_per_s)
            ),
            *([_column(rows, "Accuracy", _accuracy)] if has_accuracy else []),
            *(_column(rows, each, partial(metric_cell, each)) for each in metrics),
        ],
        f"Sweep of {of}: combinations on {name_among(planned, largest)}, the fastest first, with 95 % "
        "intervals. A click on a heading sorts by another number. Chance favours the first of many: "
        "compare intervals.",
        f"Sweep of {of}",
        name,
    )


def _at(experiment: ExperimentSummary, size: Sized) -> PointSummary | None:
    """Return the point of a size; None without a completed run."""
    return next((one for one in experiment.points if one.point == size.point), None)


def _rate(point: PointSummary | None) -> float:
    found = point and point.throughput_samples_per_s
    return found.mean if found else -1.0


def _values(experiment: ExperimentSummary) -> Mapping[str, str]:
    return experiment.sweep.values if experiment.sweep else {}


def _value(name: str, row: _Row) -> str:
    return _values(row[0]).get(name, NONE)


def _runs(row: _Row) -> str:
    experiment, point = row
    return counted(experiment, point) if point else "0"


def _accuracy(point: PointSummary) -> Cell:
    return estimate(point.test_accuracy, "tenths")


def _column(rows: Sequence[_Row], heading: str, cell: Callable[[PointSummary], Cell]) -> Column:
    return column(
        rows, heading, lambda row: cell(row[1]) if row[1] else UNKNOWN, terminal=heading.lower()
    )

"""The report's main numbers in the terminal."""

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from argosy.report import numbers, sizes
from argosy.report.sizes import states
from argosy.report.summary.models import ExperimentSummary, PointSummary, read_summary
from argosy.report.summary.parts import PredictedPoint, PredictionSummary
from argosy.report.topics import sentences, setups, to_know
from argosy.report.topics.answer import advice, answer
from argosy.terminal import make_table

_COLUMNS = (
    "nodes",
    "ranks",
    "n",
    "samples/s",
    "speed-up",
    "interval",
    "efficiency",
    "accuracy",
)


def print_summary(summary: Mapping[str, Any], console: Console) -> None:
    """Print a table for each experiment of a parsed summary.json, and what is in none of them."""
    content = read_summary(summary)
    for experiment in content.experiments:
        console.print(_table(experiment))
        if experiment.advice:
            console.print(escape(" ".join(answer(experiment) + advice(experiment))), style="bold")
        for sentence in sentences(experiment):
            console.print(escape(sentence))
        for sentence in to_know(content, experiment):
            console.print(escape(sentence), style="yellow")
        console.print()
    for sentence in setups.mixtures(content):
        console.print(escape(sentence), style="red")
    for problem in content.problems:
        where = f"{problem.experiment}/{problem.run_id}"
        console.print(escape(f"Could not be read: {where}: {problem.problem}"), style="red")


def number_table(title: str, columns: Iterable[str]) -> Table:
    """Return a table of numbers without rows yet; `title` and names of columns are texts, not markup."""
    table = make_table(title)
    for column in columns:
        table.add_column(escape(column), justify="right", no_wrap=True)
    return table


def _table(experiment: ExperimentSummary) -> Table:
    title = f"{experiment.experiment}, {experiment.scaling} scaling: {states(experiment.states)}"
    table = number_table(title, _COLUMNS)
    for point in experiment.points:
        table.add_row(*_cells(point, sizes.counted(experiment, point)))
    return table


def _cells(point: PointSummary, runs: str) -> tuple[str, ...]:
    rate, speed_up, accuracy = point.throughput_samples_per_s, point.speed_up, point.test_accuracy
    return (
        str(point.nodes),
        str(point.ranks),
        runs,
        numbers.number(rate.mean if rate else None),
        numbers.number(speed_up.mean if speed_up else None),
        numbers.interval(speed_up),
        numbers.percent(point.efficiency.mean if point.efficiency else None),
        numbers.percent(accuracy.mean if accuracy else None, decimals=1),
    )


_PREDICTED_COLUMNS = (
    *("nodes", "samples/s", "95 %\ninterval", "measured", "error", "efficiency", "hours"),
    "node\nhours",
)


def prediction_table(experiment: str, found: PredictionSummary, currency: str | None) -> Table:
    """Return a row for each number of nodes; columns of energy and price only where they are known."""
    how = "predicted" if found.method == "network" else "extrapolated"
    title = f"{experiment}, {how} for {numbers.number(found.samples, 6)} samples"
    more = [
        (name, attribute)
        for name, attribute in (
            ("kWh", "energy_kwh"),
            (currency or "price", "price"),
            ("kg CO₂", "carbon_kg"),
        )
        if any(getattr(point, attribute) for point in found.points)
    ]
    shown = number_table(title, (*_PREDICTED_COLUMNS, *(name for name, _ in more)))
    for point in found.points:
        known = (getattr(point, attribute) for _, attribute in more)
        shown.add_row(*_predicted_cells(point), *(numbers.number(one.mean) for one in known if one))
    return shown


def _predicted_cells(point: PredictedPoint) -> tuple[str, ...]:
    return (
        str(point.nodes),
        numbers.number(point.samples_per_s.mean),
        numbers.interval(point.samples_per_s),
        numbers.number(point.measured_samples_per_s),
        numbers.percent(point.error, 1),
        numbers.percent(point.efficiency.mean),
        numbers.number(point.hours.mean),
        numbers.number(point.node_hours.mean),
    )

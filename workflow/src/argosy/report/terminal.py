"""The report's main numbers in the terminal."""

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from argosy.report import numbers
from argosy.report.prose import findings as words
from argosy.report.prose import setups as setup_words
from argosy.report.prose import sizes
from argosy.report.prose.answer import advice, answer
from argosy.report.prose.experiments import sentences, to_know
from argosy.report.summary.models import ExperimentSummary, PointSummary, read_summary
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
    for sentence in setup_words.mixtures(content):
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
    title = (
        f"{experiment.experiment}, {experiment.scaling} scaling: {words.states(experiment.states)}"
    )
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

"""The report's main numbers in the terminal."""

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from argosy.report.numbers import number
from argosy.report.sizes import states
from argosy.report.summary.models import ExperimentSummary, read_summary
from argosy.report.summary.parts import PredictionSummary
from argosy.report.table import Column
from argosy.report.topics import scaling_table, sentences, setups, sweep, to_know
from argosy.report.topics.accuracy import accuracy_column
from argosy.report.topics.answer import advice, answer
from argosy.report.topics.prediction import says as prediction
from argosy.terminal import make_table

_MOST_PROBLEMS = 8


def print_summary(summary: Mapping[str, Any], console: Console) -> None:
    """Print tables and sentences of a parsed summary.json, and its problems."""
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
    for table in sweep.tables(content):
        console.print(terminal_table(table.label, table.columns))
        console.print()
    for sentence in setups.mixtures(content):
        console.print(escape(sentence), style="red")
    for problem in content.problems[:_MOST_PROBLEMS]:
        where = f"{problem.experiment}/{problem.run_id}"
        console.print(escape(f"Could not be read: {where}: {problem.problem}"), style="red")
    if (more := len(content.problems) - _MOST_PROBLEMS) > 0:
        console.print(f"Could not be read: {more} more; the report has all", style="red")


def terminal_table(title: str, columns: Iterable[Column]) -> Table:
    """Return a table of the columns with a heading for the terminal; `title` is plain text."""
    table = make_table(title)
    there = [one for one in columns if one.terminal]
    for column in there:
        table.add_column(escape(column.terminal), justify="right", no_wrap=True)
    for row in zip(*(one.cells for one in there), strict=True):
        table.add_row(*(cell.text for cell in row))
    return table


def _table(experiment: ExperimentSummary) -> Table:
    title = f"{experiment.experiment}, {experiment.scaling} scaling: {states(experiment.states)}"
    accuracies = accuracy_column(experiment.points)
    return terminal_table(title, [*scaling_table(experiment).columns, accuracies])


def prediction_table(experiment: str, found: PredictionSummary, currency: str | None) -> Table:
    """Return the table of a prediction, with energy and price if they are known."""
    how = "predicted" if found.method == "network" else "extrapolated"
    title = f"{experiment}, {how} for {number(found.samples, 6)} {found.unit}"
    return terminal_table(title, prediction.table(experiment, found, currency).columns)

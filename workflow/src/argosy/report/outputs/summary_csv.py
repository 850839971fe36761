"""summary.csv: a row for each point and quantity."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from argosy.report.summary.models import Summary
from argosy.report.topics import quantities

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
"""First characters of formulas in spreadsheets; the last four are full-width variants."""


def summary_csv(summary: Summary) -> str:
    """Return a summary's numbers as CSV; ratios have the unit 1, unknown values are empty."""
    return csv_text([HEADER, *_rows(summary)])


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Return rows as CSV; text that looks like a formula gets a leading apostrophe."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _rows(summary: Summary) -> Iterator[Sequence[object]]:
    for experiment in summary.experiments:
        for one, (quantity, unit, value) in quantities(experiment):
            size = (one.nodes, one.ranks_per_node, one.ranks)
            estimate = (value.n, value.mean, value.low, value.high)
            yield experiment.experiment, experiment.scaling, *size, quantity, unit, *estimate


def _cell(value: object) -> object:
    """Escape text that spreadsheets would run as a formula.

    See https://owasp.org/www-community/attacks/CSV_Injection.
    """
    if not isinstance(value, str):
        return value
    # Python's writer does not quote a carriage return, at which readers begin a row.
    text = value.replace("\r", " ")
    return f"'{text}" if value.startswith(_FORMULA) else text

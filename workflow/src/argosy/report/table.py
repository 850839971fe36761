"""A table of numbers, once for all outputs: the page, LaTeX and the terminal are loops over its columns."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from argosy.report import numbers
from argosy.report.numbers import NONE, number, percent
from argosy.report.sizes import Size
from argosy.report.statistics.estimates import Estimate

Form = Literal["number", "percent", "tenths"]
"""How an estimate is written; `tenths` are those of a per cent."""
_DECIMALS = {"percent": 0, "tenths": 1}
_Row = TypeVar("_Row")


@dataclass(frozen=True)
class Cell:
    """A number as it is read, with its unit, and what else its cell holds."""

    text: str
    value: float | None = None
    """Unrounded, for programs that read the page; None: the text is all."""
    estimate: Estimate | None = None
    """Of which `text` is the mean."""
    interval: str = ""
    unit: str = ""
    """Of `text`, where it is not part of that."""
    below: str = ""
    """A smaller second line."""
    marks: tuple[str, ...] = ()
    """Words on the row, as why a size is advised."""
    is_bad: bool = False
    loss: int | None = None
    """How deep the cell is shaded, in per cent."""
    is_worst: bool = False
    """Whether it is the greatest loss of its row."""


UNKNOWN = Cell(NONE)
Quantity = tuple[str, str, Estimate]
"""A row of summary.csv: its name, unit and value; ratios have the unit 1."""


def known(*quantities: tuple[str, str, Estimate | None]) -> Iterator[Quantity]:
    """Yield the quantities that have a value."""
    return ((name, unit, value) for name, unit, value in quantities if value is not None)


@dataclass(frozen=True)
class Column:
    """The cells of a column, and its heading in each output; an empty one leaves the column out."""

    cells: Sequence[Cell]
    page: str = ""
    terminal: str = ""
    paper: str = ""


@dataclass(frozen=True)
class Table:
    """A table; its first column names the rows."""

    columns: Sequence[Column]
    caption: str
    label: str
    """What the table is of, in a few words."""
    name: str = ""
    """Ends its id on the page, to which charts link, and names its file in LaTeX."""
    kind: str = ""
    """Its class in the style sheet."""
    folded: str = ""
    """The line that unfolds it; empty: it is open."""
    said: Sequence[str] = ()
    """Sentences above it."""
    paper: str = ""
    """What it is of, in LaTeX; empty: no paper has it."""

    @property
    def on_page(self) -> list[Column]:
        """Return the columns of the page."""
        return [one for one in self.columns if one.page]

    @property
    def rows(self) -> list[tuple[Cell, ...]]:
        """Return the cells of the page, row by row."""
        return [*zip(*(one.cells for one in self.on_page), strict=True)]


def column(
    rows: Iterable[_Row],
    page: str,
    cell: Callable[[_Row], Cell | str],
    *,
    terminal: str = "",
    paper: str = "",
) -> Column:
    """Return the column that has a `cell` of each of these rows; a text is a cell with nothing else."""
    cells = [one if isinstance(one, Cell) else Cell(one) for one in map(cell, rows)]
    return Column(cells, page, terminal, paper)


def size_columns(rows: Sequence[Size]) -> list[Column]:
    """Return the columns that tell the size of each row: nodes and ranks."""
    return [
        column(rows, "Nodes", lambda row: str(row.nodes), terminal="nodes", paper="Nodes"),
        column(rows, "Ranks", lambda row: str(row.ranks), terminal="ranks", paper="Ranks"),
    ]


def figure(value: float | None, text: str, unit: str = "") -> Cell:
    """Return the cell of a number with the text that is shown for it."""
    return Cell(text, value, unit=unit)


def estimate(found: Estimate | None, form: Form = "number", unit: str = "") -> Cell:
    """Return the cell of an estimate with its interval."""
    if found is None:
        return UNKNOWN
    if form == "number":
        text, interval = number(found.mean), numbers.interval(found)
    else:
        decimals = _DECIMALS[form]
        text = percent(found.mean, decimals)
        interval = numbers.percent_interval(found, decimals)
    return Cell(text + unit, found.mean, found, "" if found.low is None else interval)


def in_order(order: Iterable[str], found: Iterable[Iterable[str]]) -> list[str]:
    """Return those names of `order` that any of the rows has."""
    there = {name for row in found for name in row}
    return [name for name in order if name in there]

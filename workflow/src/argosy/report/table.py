"""Tables of numbers, rendered from one description by the page, LaTeX and the terminal."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from argosy.report import numbers
from argosy.report.numbers import NONE, percent
from argosy.report.sizes import Size
from argosy.report.statistics.estimates import Estimate

Form = Literal["number", "percent", "tenths"]
"""Format of an estimate; `tenths` is per cent with one decimal."""
_DECIMALS = {"percent": 0, "tenths": 1}
_Row = TypeVar("_Row")


@dataclass(frozen=True)
class Cell:
    """The content of a table cell."""

    text: str
    value: float | None = None
    """The unrounded number, for programs that read the page; None for text."""
    estimate: Estimate | None = None
    """The estimate whose mean is `text`."""
    interval: str = ""
    unit: str = ""
    """Unit of `text`, unless it is part of `text`."""
    below: str = ""
    """A smaller second line."""
    marks: tuple[str, ...] = ()
    """Labels of the row, such as `for time` on an advised size."""
    is_bad: bool = False
    loss: int | None = None
    """Depth of the cell's shade, in per cent."""
    is_worst: bool = False
    """Whether the cell is the greatest loss of its row."""


UNKNOWN = Cell(NONE)
Quantity = tuple[str, str, Estimate]
"""A row of summary.csv: name, unit and value; ratios have the unit 1."""


def known(*quantities: tuple[str, str, Estimate | None]) -> Iterator[Quantity]:
    """Yield the quantities that have a value."""
    return ((name, unit, value) for name, unit, value in quantities if value is not None)


@dataclass(frozen=True)
class Column:
    """The cells of a column, and its heading in each output; an empty heading omits the column."""

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
    """A short title."""
    name: str = ""
    """End of its id on the page, to which charts link, and its file name in LaTeX."""
    kind: str = ""
    """Its class in the style sheet."""
    folded: str = ""
    """The line that unfolds the table; empty if it is always open."""
    said: Sequence[str] = ()
    """Sentences above it."""
    paper: str = ""
    """Title in LaTeX; empty if the table is not written there."""

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
    """Return a column with the `cell` of each row; a text becomes a cell with this text."""
    cells = [one if isinstance(one, Cell) else Cell(one) for one in map(cell, rows)]
    return Column(cells, page, terminal, paper)


def size_columns(rows: Sequence[Size]) -> list[Column]:
    """Return the columns of nodes and ranks."""
    return [
        column(rows, "Nodes", lambda row: str(row.nodes), terminal="nodes", paper="Nodes"),
        column(rows, "Ranks", lambda row: str(row.ranks), terminal="ranks", paper="Ranks"),
    ]


def figure(value: float | None, text: str, unit: str = "") -> Cell:
    """Return the cell of a number and its text."""
    return Cell(text, value, unit=unit)


def estimate(found: Estimate | None, form: Form = "number", unit: str = "") -> Cell:
    """Return the cell of an estimate with its interval."""
    if found is None:
        return UNKNOWN
    if form == "number":
        text, interval = numbers.mean_text(found), numbers.interval(found)
    else:
        decimals = _DECIMALS[form]
        text = percent(found.mean, decimals)
        interval = numbers.percent_interval(found, decimals)
    return Cell(text + unit, found.mean, found, "" if found.low is None else interval)


def in_order(order: Iterable[str], found: Iterable[Iterable[str]]) -> list[str]:
    """Return the names of `order` that occur in any row."""
    there = {name for row in found for name in row}
    return [name for name in order if name in there]

"""Tables in a terminal, in one style for all commands; no word is broken."""

import errno
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from argosy_common.errors import plain

PIPED_WIDTH = 1000
"""Columns without a terminal: one line per row, for other programs."""
_GAP = 2
_INDENT = 2


class _Console(Console):
    def print(self, *objects: Any, **options: Any) -> None:
        """Print without blanks at the ends of lines, with which tables fill their width, in a pipe."""
        if self.is_terminal:
            super().print(*objects, **options)
            return
        with self.capture() as captured:
            super().print(*objects, **options)
        self.file.write("\n".join(line.rstrip(" ") for line in captured.get().split("\n")))

    def on_broken_pipe(self) -> NoReturn:
        """Let the command handle it, since rich would exit with 1."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def make_console() -> Console:
    """Return the console of commands: as wide as the terminal or COLUMNS, and wide in a pipe."""
    console = _Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PIPED_WIDTH
    return console


def make_table(title: str = "", *, has_head: bool = True) -> Table:
    """Return an empty table; `title` is text, not markup."""
    return Table(
        title=Text(title) if title else None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
        show_header=has_head,
    )


@dataclass(frozen=True)
class Listing:
    """A table with line breaks between words; if it is too wide, each row becomes a paragraph.

    Args:
        headings: headings of the columns.
        rows: a cell for each column, plain text or styled.
        right: right-aligned columns, for numbers.
        has_head: whether to print the headings.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str | Text]]
    right: Sequence[int] = ()
    has_head: bool = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = [[_text(cell) for cell in row] for row in self.rows]
        widths = _widths([*([self._head] if self.has_head else []), *rows], options.max_width)
        if widths is None:
            yield from self._paragraphs(rows)
            return
        table = make_table(has_head=self.has_head)
        for place, heading in enumerate(self._head):
            justify = "right" if place in self.right else "left"
            table.add_column(heading, justify=justify, width=widths[place])  # type: ignore[arg-type]
        for row in rows:
            table.add_row(*row)
        yield table

    @property
    def _head(self) -> list[Text]:
        return [Text(heading) for heading in self.headings]

    def _paragraphs(self, rows: Iterable[Sequence[Text]]) -> Iterator[RenderableType]:
        for first, *others in rows:
            yield first
            for heading, cell in zip(self.headings[1:], others, strict=True):
                if cell.plain:
                    said = Text.assemble(f"{heading}: ", cell) if heading else cell
                    yield Padding(said, (0, 0, 0, _INDENT))


def _text(cell: str | Text) -> Text:
    return cell if isinstance(cell, Text) else Text(plain(cell))


def _widths(rows: Sequence[Sequence[Text]], room: int) -> list[int] | None:
    """Return column widths that fit without breaking words; None if impossible."""
    columns = list(zip(*rows, strict=True))
    widths = [max(cell_len(cell.plain) for cell in column) for column in columns]
    least = [
        max((cell_len(word) for cell in column for word in cell.plain.split()), default=0)
        for column in columns
    ]
    excess = sum(widths) + _GAP * (len(widths) - 1) - room
    while excess > 0:
        place = max(range(len(widths)), key=lambda each: widths[each] - least[each])
        if widths[place] <= least[place]:
            return None
        widths[place] -= 1
        excess -= 1
    return widths


def shortened(text: str, most: int) -> str:
    """Shorten a text to at most `most` characters, with `…` after the last whole word."""
    if len(text) <= most:
        return text
    head = text[:most].rpartition(" ")[0]
    head = head if len(head) > most // 2 else text[: most - 1]
    return f"{head.rstrip(',;:')}…"


def span(seconds: float) -> str:
    """Format a duration: `42s`, `12m03s`, `1h05m`, `2d03h`."""
    whole = max(0, int(seconds))
    for size, unit, part, smaller in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "m"),
        (60, "m", 1, "s"),
    ):
        if whole >= size:
            return f"{whole // size}{unit}{whole % size // part:02}{smaller}"
    return f"{whole}s"


def rate(samples_per_s: float) -> str:
    """Format a rate with three or more significant digits and commas between thousands."""
    if samples_per_s >= 100:
        return f"{samples_per_s:,.0f}"
    if samples_per_s >= 10:
        return f"{samples_per_s:.1f}"
    places = 2 - min(0, math.floor(math.log10(samples_per_s))) if samples_per_s > 0 else 2
    return f"{samples_per_s:.{places}f}"


def plural(count: int, word: str) -> str:
    return f"{count} {word}" + ("" if count == 1 else "s")

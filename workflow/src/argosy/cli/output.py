"""How commands tell what they do."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType


def say(line: str) -> None:
    """A line of progress, on standard error: what a command gives is on standard output."""
    print(line, file=sys.stderr)


def show(*parts: "RenderableType") -> None:
    """What a command was asked for: tables and text, one below the other."""
    from rich.console import Console

    Console(highlight=False).print(*parts, sep="\n")

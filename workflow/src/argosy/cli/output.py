"""How commands tell what they do."""

import os
import sys
from typing import TYPE_CHECKING

from argosy.errors import plain

if TYPE_CHECKING:
    from rich.console import RenderableType


def say(line: str) -> None:
    """Print a line of progress on standard error: what a command gives is on standard output."""
    print(plain(line), file=sys.stderr)


def show(*parts: "RenderableType", piped_width: int | None = None) -> None:
    """Print what a command was asked for: tables and text, one below the other.

    Args:
        piped_width: columns where there is no terminal, and nobody says how many; None: 80.
    """
    from rich.console import Console

    console = Console(highlight=False)
    if piped_width and not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = piped_width
    console.print(*parts, sep="\n")

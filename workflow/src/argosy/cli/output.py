"""Prints progress and results of commands."""

import json
import sys
from typing import TYPE_CHECKING, Any

from argosy_common.errors import plain

if TYPE_CHECKING:
    from rich.console import RenderableType


def say(line: str) -> None:
    """Print a line of progress on standard error; results go to standard output."""
    print(plain(line), file=sys.stderr)


def show(*parts: "RenderableType") -> None:
    """Print a command's result: tables and texts."""
    from argosy.terminal import make_console

    make_console().print(*parts, sep="\n")


def show_json(content: Any) -> None:
    """Print a command's result as JSON (docs/commands.md)."""
    print(json.dumps(content, indent=2, ensure_ascii=False))

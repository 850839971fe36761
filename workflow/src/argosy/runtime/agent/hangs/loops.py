"""Loops of a program that no condition can end, as its source shows them."""

from __future__ import annotations

import ast
from typing import Sequence

from ...contract.files import open_regular
from .stacks import Frame

_WAYS_OUT = (ast.Break, ast.Return, ast.Raise, ast.Yield, ast.YieldFrom, ast.Await, ast.Assert)
_WAITS = ("sleep", "pause")
_LARGEST = 1 << 20  # bytes of a source file


def never_ends(frame: Frame, command: Sequence[str] = ()) -> bool:
    """Return whether a frame is in a `while True` without a way out.

    Whatever it calls may raise, so that only waiting is no way out.

    Args:
        frame: the innermost one of a thread.
        command: of its process; the program itself may be one of the words.
    """
    try:
        tree = ast.parse(_source(frame.file, command))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(
        each.lineno <= frame.line <= (getattr(each, "end_lineno", None) or 0) and _has_no_end(each)
        for each in ast.walk(tree)
        if isinstance(each, ast.While)
    )


def _source(file: str, command: Sequence[str]) -> str:
    if file == "<string>" and "-c" in command[:-1]:
        return command[command.index("-c") + 1]
    try:
        with open(open_regular(file), "rb") as source:
            return source.read(_LARGEST).decode("utf-8", "replace")
    except OSError:
        return ""


def _has_no_end(loop: ast.While) -> bool:
    if not (isinstance(loop.test, ast.Constant) and loop.test.value):
        return False
    return not any(
        isinstance(each, _WAYS_OUT)
        or (isinstance(each, ast.Call) and _name(each.func) not in _WAITS)
        for statement in loop.body
        for each in ast.walk(statement)
    )


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""

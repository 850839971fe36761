"""The plain text that every match of a pattern contains, by which most lines need no search."""

from __future__ import annotations

import re
from typing import Any, Iterable, List, Pattern

try:
    from re import _parser as parser  # type: ignore[attr-defined]
except ImportError:
    import sre_parse as parser


def needed_text(pattern: Pattern[str]) -> bytes:
    """Return the longest text that each line needs to match; empty where none is known."""
    if pattern.flags & re.IGNORECASE:
        return b""
    try:
        runs = _runs(parser.parse(pattern.pattern, pattern.flags))
    except Exception:  # A Python whose parser gives something else: lines are searched one by one.
        return b""
    texts = (run for run in runs if run.isascii() and run.isprintable())
    return max(texts, key=len, default="").encode("ascii")


def _runs(parts: Iterable[Any]) -> List[str]:
    """Return texts that all matches contain; the end of one is no begin of the next."""
    runs, here = [], ""
    for operation, argument in parts:
        name = str(operation)
        if name == "LITERAL":
            here += chr(argument)
            continue
        runs.append(here)
        here = ""
        if name == "SUBPATTERN" and not argument[1]:
            runs += _runs(argument[-1])
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") and argument[0] > 0:
            runs += _runs(argument[2])
    return [run for run in (*runs, here) if run]

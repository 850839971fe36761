"""The ends of files that others are writing: logs and JSON Lines of any size, read from the back."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from argosy.jobs.log_tail import tail

LINES_BYTES = 32 * 1024
"""Some hundred records."""
LINE_CHARACTERS = 500
_COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


def last_records(path: Path, size: int = LINES_BYTES) -> Iterator[dict[str, Any]]:
    """The objects in the last `size` bytes, the newest first.

    Lines that are cut off, at either end, are passed over.
    """
    for line in reversed(tail(path, size).decode(errors="replace").split("\n")):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


def last_lines(path: Path, count: int) -> list[str]:
    """Return the last lines, at most `count`, as a terminal would show them; long ones are cut."""
    lines = tail(path, LINES_BYTES).decode(errors="replace").rstrip("\n").split("\n")
    return [_shown(line) for line in lines[-count:]]


def _shown(line: str) -> str:
    """What a terminal would show of a line at its end, without what would change the terminal."""
    last = line.rstrip("\r").rpartition("\r")[2]
    plain = "".join(each for each in _COLOURS.sub("", last) if each.isprintable() or each == "\t")
    return plain if len(plain) <= LINE_CHARACTERS else f"{plain[:LINE_CHARACTERS]} …"


def read_object(path: Path) -> dict[str, Any] | None:
    """The JSON object in a small file; None when it is not there, or not whole."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None

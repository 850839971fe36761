"""The ends of files that others are writing: logs and JSON Lines of any size, read from the back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from argosy import reading
from argosy.errors import plain
from argosy.jobs.log_tail import tail

LINES_BYTES = 32 * 1024
"""Some hundred records."""
LINE_CHARACTERS = 500
FAR = 1e15
"""Beyond all times, counts and speeds; what is beyond is no measurement. NaN is as well."""


def last_records(path: Path, top: Path, size: int = LINES_BYTES) -> Iterator[dict[str, Any]]:
    """The objects in the last `size` bytes, the newest first.

    Lines that are cut off, at either end, are passed over.
    """
    for line in reversed(tail(path, top, size).decode(errors="replace").split("\n")):
        try:
            found = reading.json_of(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


def last_lines(path: Path, top: Path, count: int) -> list[str]:
    """Return the last lines, at most `count`, as a terminal would show them; long ones are cut."""
    lines = tail(path, top, LINES_BYTES).decode(errors="replace").rstrip("\n").split("\n")
    return [_shown(line) for line in lines[-count:]]


def _shown(line: str) -> str:
    """What a terminal would show of a line at its end, without what would change the terminal."""
    last = line.rstrip("\r").rpartition("\r")[2]
    shown = "".join(each for each in plain(last) if each.isprintable() or each == "\t")
    return shown if len(shown) <= LINE_CHARACTERS else f"{shown[:LINE_CHARACTERS]} …"


def object_if_whole(path: Path, top: Path) -> dict[str, Any] | None:
    """The JSON object in a small file; None when it is not there, not whole, or no plain file."""
    try:
        return reading.read_object(path, top)
    except (OSError, ValueError):
        return None


def number(value: object) -> float | None:
    """A finite number out of a record, as whoever wrote it was free to write anything."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < FAR else None

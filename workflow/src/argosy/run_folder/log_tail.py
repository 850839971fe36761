"""The ends of logs of any size, in lines that can be shown anywhere."""

from pathlib import Path

from argosy.errors import plain
from argosy.reading import read_end

TAIL_BYTES = 32 * 1024
"""Some hundred lines or records."""
_LAST_LINE_BYTES = 4 * 1024
_LINE_CHARACTERS = 500


def last_line(path: Path, top: Path) -> str:
    """Return the last line that says anything, without colours; "" when there is none."""
    for line in reversed(tail(path, top, _LAST_LINE_BYTES).decode(errors="replace").split("\n")):
        # A progress bar overwrites its own line.
        for written in reversed(line.split("\r")):
            if shown := plain(written).strip():
                return shown
    return ""


def tail(path: Path, top: Path, size: int) -> bytes:
    """Return the last `size` bytes of a file below `top`; none where it cannot be read."""
    try:
        return read_end(path, top, size)[0]
    except OSError:
        return b""


def last_lines(path: Path, top: Path, count: int) -> list[str]:
    """Return the last lines, at most `count`, as a terminal would show them; long ones are cut."""
    lines = tail(path, top, TAIL_BYTES).decode(errors="replace").rstrip("\n").split("\n")
    return [_shown(line) for line in lines[-count:]]


def _shown(line: str) -> str:
    """Return what a terminal would show of a line at its end, without what would change the terminal."""
    last = line.rstrip("\r").rpartition("\r")[2]
    shown = "".join(each for each in plain(last) if each.isprintable() or each == "\t")
    return shown if len(shown) <= _LINE_CHARACTERS else f"{shown[:_LINE_CHARACTERS]} …"

"""The end of a log of any size, as one line that can be shown anywhere."""

import os
import re
from pathlib import Path

_BYTES = 4 * 1024
_TERMINAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])?")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def last_line(path: Path) -> str:
    """Return the last line that says anything, without colours; "" when there is none."""
    for line in reversed(tail(path, _BYTES).decode(errors="replace").split("\n")):
        # A progress bar overwrites its own line.
        shown = _TERMINAL.sub("", line).strip().rpartition("\r")[2]
        if shown := _CONTROL.sub("", shown).strip():
            return shown
    return ""


def tail(path: Path, size: int) -> bytes:
    """Return the last `size` bytes of a file; none where it cannot be read."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - size))
            return file.read(size)
    except OSError:
        return b""

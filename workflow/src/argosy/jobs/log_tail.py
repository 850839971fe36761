"""The end of a log of any size, as one line that can be shown anywhere."""

from pathlib import Path

from argosy.errors import plain
from argosy.reading import read_end

_BYTES = 4 * 1024


def last_line(path: Path, top: Path) -> str:
    """Return the last line that says anything, without colours; "" when there is none."""
    for line in reversed(tail(path, top, _BYTES).decode(errors="replace").split("\n")):
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

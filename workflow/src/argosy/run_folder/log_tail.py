"""Reads the ends of logs of any size, as lines that are safe to print."""

import re
from collections.abc import Iterator
from pathlib import Path

from argosy_common.errors import plain
from argosy_common.reading import read_end

TAIL_BYTES = 32 * 1024
"""A few hundred lines or records."""
_LAST_LINE_BYTES = 4 * 1024
_LINE_CHARACTERS = 500
_NOTE = re.compile(
    r"(?:\[rank\d+\]:)?\[[IW]\d{4} [\d:.]+ \S+:\d+\] "
    r"|\d{4}-\d\d-\d\d [\d:.]+: [IW] \S+:\d+\] "
    r"|[IW]\d{4} [\d:.]+ +\d+ \S+:\d+\] "
)
"""Prefix of notes and warnings of PyTorch's and TensorFlow's libraries; they never explain a failure.

A failing rank of torch.distributed prints its error, and then a warning about its process group.
"""

_NO_WORDS = re.compile(r"^[\W_]+$|\(\+0x[0-9a-f]+\)|\[0x[0-9a-f]+\]$|^#\d+ +0x[0-9a-f]+ ")
"""A ruled line, or a frame of a native stack: `/lib/libc.so.6(+0x8bb) [0x7f]`, `#3 0x7f in main`."""


def last_line(path: Path, top: Path) -> str:
    """Return the last meaningful line, without colours; "" if there is none.

    Notes of libraries, ruled lines and native stack frames count only if there is nothing else.
    """
    lines = list(_lines_from_the_end(tail(path, top, _LAST_LINE_BYTES).decode(errors="replace")))
    meaningful = (line for line in lines if not _NOTE.match(line) and not _NO_WORDS.search(line))
    return next(meaningful, lines[0] if lines else "")


def _lines_from_the_end(text: str) -> Iterator[str]:
    for line in reversed(text.split("\n")):
        # A progress bar overwrites its own line.
        for written in reversed(line.split("\r")):
            if shown := plain(written).strip():
                yield shown


def tail(path: Path, top: Path, size: int) -> bytes:
    """Return the last `size` bytes of a file below `top`; empty if it is unreadable."""
    try:
        return read_end(path, top, size)[0]
    except OSError:
        return b""


def last_lines(path: Path, top: Path, count: int) -> list[str]:
    """Return at most `count` last lines as a terminal shows them; long ones are cut."""
    lines = tail(path, top, TAIL_BYTES).decode(errors="replace").rstrip("\n").split("\n")
    return [_shown(line) for line in lines[-count:]]


def final_state(line: str) -> str:
    """Return a line without colours; a progress bar in its last state."""
    return plain(line.rstrip("\r").rpartition("\r")[2])


def _shown(line: str) -> str:
    """Return the final state of a line as a terminal shows it, without control characters."""
    shown = "".join(each for each in final_state(line) if each.isprintable() or each == "\t")
    return shown if len(shown) <= _LINE_CHARACTERS else f"{shown[:_LINE_CHARACTERS]} …"

"""The ends of logs of any size, in lines that can be shown anywhere."""

import re
from collections.abc import Iterator
from pathlib import Path

from argosy_common.errors import plain
from argosy_common.reading import read_end

TAIL_BYTES = 32 * 1024
"""Some hundred lines or records."""
_LAST_LINE_BYTES = 4 * 1024
_LINE_CHARACTERS = 500
_NOTE = re.compile(
    r"(?:\[rank\d+\]:)?\[[IW]\d{4} [\d:.]+ \S+:\d+\] "
    r"|\d{4}-\d\d-\d\d [\d:.]+: [IW] \S+:\d+\] "
    r"|[IW]\d{4} [\d:.]+ +\d+ \S+:\d+\] "
)
"""How PyTorch's and TensorFlow's libraries begin a note or a warning, which is never why a program ended.

A rank of torch.distributed that fails says so, and then warns that it left its group without a word.
"""

_NO_WORDS = re.compile(r"^[\W_]+$|\(\+0x[0-9a-f]+\)|\[0x[0-9a-f]+\]$|^#\d+ +0x[0-9a-f]+ ")
"""A rule of signs, or a frame of a native stack: `/lib/libc.so.6(+0x8bb) [0x7f]`, `#3 0x7f in main`."""


def last_line(path: Path, top: Path) -> str:
    """Return the last line that says anything, without colours; "" when there is none.

    Notes of libraries, rules and frames of C++ are passed over where something else was said.
    """
    said = list(_lines_from_the_end(tail(path, top, _LAST_LINE_BYTES).decode(errors="replace")))
    telling = (line for line in said if not _NOTE.match(line) and not _NO_WORDS.search(line))
    return next(telling, said[0] if said else "")


def _lines_from_the_end(text: str) -> Iterator[str]:
    for line in reversed(text.split("\n")):
        # A progress bar overwrites its own line.
        for written in reversed(line.split("\r")):
            if shown := plain(written).strip():
                yield shown


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

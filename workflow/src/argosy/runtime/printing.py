"""Prints lines of the host's programs, even if the output is closed or full."""

from __future__ import annotations

import os
import sys
from typing import TextIO


def say(line: str) -> bool:
    """Print a line to standard output and flush; return whether that succeeded."""
    return _print(line, sys.stdout)


def complain(line: str) -> None:
    _print(line, sys.stderr)


def _print(line: str, stream: TextIO | None) -> bool:
    if stream is None:
        return False  # started with that descriptor closed
    try:
        line = line.encode(stream.encoding, "backslashreplace").decode(stream.encoding)
        print(line, file=stream, flush=True)
    except OSError:
        # The rest of the buffer would fail again when Python ends, and replace the exit status by 120.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return False
    return True

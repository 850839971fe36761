"""What all readers of telemetry share: how they are asked, and how they say that they cannot answer."""

from __future__ import annotations

import os
from typing import Protocol, Sequence


class UnreadError(Exception):
    """Something cannot be read; the text says why, in one line."""


class Reader(Protocol):
    """One kind of numbers; it does nothing before it is read for the first time."""

    @property
    def keys(self) -> Sequence[str]:
        """The names of its values."""

    def read(self) -> dict[str, float]:
        """Return the values. Counters begin with 0. Raises OSError, ValueError, UnreadError."""


def read_text(path: str) -> str:
    """Return the content of one of the kernel's small files. Raises OSError."""
    with open(path, "rb", buffering=0) as file:
        return file.read().decode("utf-8", "replace")


def why(error: Exception) -> str:
    """Return the error in one line, with the file that it is about."""
    if isinstance(error, OSError) and error.errno:
        reason = os.strerror(error.errno).lower()
        return f"{reason}: {error.filename}" if error.filename else reason
    return str(error) or type(error).__name__

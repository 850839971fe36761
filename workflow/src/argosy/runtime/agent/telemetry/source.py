"""What a source of telemetry is, how its readers are asked, and counters that begin with the first look."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Protocol, Sequence


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


class CumulativeCounter:
    """How much a set of counters has grown altogether, each since it was seen first.

    A counter that falls has begun anew: what it had until then stays, and this fall adds nothing.

    Args:
        ranges: for a counter that wraps around, the value after which it is 0 again.
    """

    def __init__(self, ranges: Mapping[str, float] | None = None) -> None:
        self._ranges = ranges or {}
        self._last: dict[str, float] = {}
        self._total: float = 0

    def add(self, counters: Mapping[str, float]) -> float:
        """Return the growth up to these values. A counter that is not among them is looked at next time."""
        for name, value in counters.items():
            step = value - self._last.get(name, value)
            if step < 0:
                step = max(0, step + self._ranges.get(name, 0))
            self._total += step
            self._last[name] = value
        return self._total


class Integral:
    """The integral of a rate over time by the trapezium rule, from the first value on."""

    def __init__(self) -> None:
        self._last: tuple[float, float] | None = None
        self._total = 0.0

    def add(self, at_s: float, rate: float) -> float:
        """Return the integral up to this value; `rate` is a quantity per second."""
        if self._last:
            before_s, before = self._last
            self._total += (at_s - before_s) * (before + rate) / 2
        self._last = at_s, rate
        return self._total


Record = Mapping[str, Any]


@dataclass(frozen=True)
class Opened:
    """What a source begins with: its part of the header, what it cannot read and why, a first sample."""

    header: Mapping[str, Any] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)
    records: Sequence[Record] = ()


class Source(Protocol):
    """Used by one thread, which may hang in it without harm to any other."""

    @property
    def name(self) -> str:
        """What it is called where it cannot be read."""

    def open(self) -> Opened:
        """To be called once, before anything else. May raise any Exception."""

    def sample(self) -> Sequence[Record]:
        """Return the lines of one sample. May raise any Exception; the next call is another try."""


class NodeSource:
    """One line a sample, with the numbers of all readers that work.

    Args:
        header: what is said of them in the file's first line, once they were read.
    """

    name = "node"

    def __init__(self, readers: Sequence[Reader], header: Callable[[], Mapping[str, Any]]) -> None:
        self._readers = list(readers)
        self._header = header
        self._said: set[tuple[str, str]] = set()

    def open(self) -> Opened:
        """Readers that fail now are not asked again."""
        record, unread = self._read()
        self._readers = [each for each in self._readers if not unread.keys() & {*each.keys}]
        return Opened(self._header(), unread, [record])

    def sample(self) -> Sequence[Record]:
        """Return the line, and one for each thing that could not be read and was not named before."""
        record, unread = self._read()
        new = {*unread.items()} - self._said
        self._said |= new
        return [record, *(unread_record(what, reason) for what, reason in sorted(new))]

    def _read(self) -> tuple[Record, dict[str, str]]:
        record: dict[str, Any] = {"kind": "node", "at": time.monotonic()}
        unread = {}
        for reader in self._readers:
            try:
                record.update(reader.read())
            except Exception as error:
                unread.update({key: why(error) for key in reader.keys})
        return record, unread


def unread_record(what: str, reason: str, **more: Any) -> Record:
    """Return a line that says what is missing from here on, or was missing now."""
    return {"kind": "unread", "at": time.monotonic(), **more, "what": what, "why": reason}

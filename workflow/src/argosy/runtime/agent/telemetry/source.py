"""Sources and readers of telemetry, and counters that begin with the first reading."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from itertools import chain
from typing import Any, Callable, Mapping, Protocol, Sequence


class UnreadError(Exception):
    """A value cannot be read; the text is the reason in one line."""


Reader = Callable[[], Mapping[str, Any]]
"""Returns values by name: a number, or counters by device, of which the growth is recorded.

Raises OSError, ValueError or UnreadError.
"""


def why(error: Exception) -> str:
    """Return an error in one line, with its file."""
    if isinstance(error, OSError) and error.errno:
        reason = os.strerror(error.errno).lower()
        return f"{reason}: {error.filename}" if error.filename else reason
    return str(error) or type(error).__name__


class CumulativeCounter:
    """Total growth of a set of counters, each since its first reading.

    A counter that falls has been reset: the fall adds nothing.

    Args:
        ranges: the largest value of counters that wrap around, by name.
    """

    def __init__(self, ranges: Mapping[str, float] | None = None) -> None:
        self._ranges = ranges or {}
        self._last: dict[str, float] = {}
        self._total: float = 0

    def add(self, counters: Mapping[str, float]) -> float:
        """Return the total growth up to these values; counters may be missing."""
        for name, value in counters.items():
            step = value - self._last.get(name, value)
            if step < 0:
                step = max(0, step + self._ranges.get(name, 0))
            self._total += step
            self._last[name] = value
        return self._total


class Integral:
    """Integral of a rate over time by the trapezoidal rule."""

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


class Unread:
    """Reports each missing value and reason once."""

    def __init__(self) -> None:
        self._reported: set[tuple[str, str]] = set()

    def report(self, what: str, reason: str, **more: Any) -> list[Record]:
        """Return a line about a missing value, unless it has been reported."""
        if (what, reason) in self._reported:
            return []
        self._reported.add((what, reason))
        return [unread_record(what, reason, **more)]


class Source(Protocol):
    """A source of samples, used by its own thread, which may hang."""

    @property
    def name(self) -> str:
        """The source's name in reports of missing values."""

    def open(self) -> tuple[Record, Sequence[Record]]:
        """Return its part of the header, and the first sample; called once, first.

        The part may have `unread`: reasons of unreadable values by name. May raise any Exception.
        """

    def sample(self) -> Sequence[Record]:
        """Return the lines of one sample. May raise any Exception, and may be called again."""


class NodeSource:
    """Source that combines the values of all readers into one line per sample.

    Args:
        readers: the readers, by the names of their values.
        header: returns their part of the file's first line, after the first reading.
    """

    name = "node"

    def __init__(
        self, readers: Mapping[Sequence[str], Reader], header: Callable[[], Mapping[str, Any]]
    ) -> None:
        self._readers = dict(readers)
        self._header = header
        self._growth: dict[str, CumulativeCounter] = defaultdict(CumulativeCounter)
        self._unread = Unread()

    def open(self) -> tuple[Record, Sequence[Record]]:
        """Read once, and drop readers that fail."""
        record, unread = self._read()
        self._readers = {k: v for k, v in self._readers.items() if unread.keys().isdisjoint(k)}
        return {**self._header(), "unread": unread}, [record]

    def sample(self) -> Sequence[Record]:
        """Return the line, and a line for each new read error."""
        record, unread = self._read()
        reports = [self._unread.report(*each) for each in sorted(unread.items())]
        return [record, *chain.from_iterable(reports)]

    def _read(self) -> tuple[Record, dict[str, str]]:
        record: dict[str, Any] = {"kind": "node", "at": time.monotonic()}
        unread: dict[str, str] = {}
        for names, read in self._readers.items():
            try:
                values = read()
            except Exception as error:
                unread.update(dict.fromkeys(names, why(error)))
                continue
            for name, value in values.items():
                is_growing = isinstance(value, dict)
                record[name] = round(self._growth[name].add(value), 6) if is_growing else value
        return record, unread


def unread_record(what: str, reason: str, **more: Any) -> Record:
    """Return a line that reports a missing value and the reason."""
    return {"kind": "unread", "at": time.monotonic(), **more, "what": what, "why": reason}

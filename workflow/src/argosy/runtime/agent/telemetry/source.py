"""What a source of telemetry is, and that of the node's own numbers."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Protocol, Sequence

from .reading import Reader, why

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

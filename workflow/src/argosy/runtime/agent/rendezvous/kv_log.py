"""The head's list of what all nodes have put, in one order for all."""

from __future__ import annotations

from dataclasses import dataclass, field

from .kv_codec import decode
from .store import MAX_TOTAL, rank_of

# What one answer holds, unless a single value is longer; with a thousand agents it is this that
# bounds the head's memory.
MAX_ANSWER = 128 << 10


@dataclass
class _Meeting:
    """One generation of a scope: where its entries are, whose they are, and who needs them."""

    places: list[int] = field(default_factory=list)
    nodes: set[int] = field(default_factory=set)
    done: set[int] = field(default_factory=set)


class KvLog:
    """Entries by place. Used by one thread only.

    An agent says up to which place it has read, so it may lose its connection at any time and
    read on in another one.
    """

    def __init__(self, most: int = MAX_TOTAL) -> None:
        self._entries: list[bytes] = []
        self._meetings: dict[tuple[str, int], _Meeting] = {}
        self._most = most
        self._total = 0

    @property
    def end(self) -> int:
        """The place of the next entry."""
        return len(self._entries)

    def put(self, message: bytes, place: int = 0) -> None:
        """Add a node's entries. Raises ValueError, or MemoryError when the board is full."""
        for entry, raw in list(decode(message, place)):
            meeting = self._meetings.setdefault((entry.scope, entry.generation), _Meeting())
            if not entry.key:
                meeting.done.add(entry.node)
                self._forget(entry.scope, entry.generation)
                continue
            if self._total + len(raw) > self._most:
                raise MemoryError
            if rank_of(entry.key):
                meeting.nodes.add(entry.node)
            meeting.places.append(self.end)
            self._entries.append(raw)
            self._total += len(raw)

    def since(self, place: int, most: int = MAX_ANSWER) -> tuple[bytes, int]:
        """Entries from a place on, at least one if there is any, and the place after them."""
        parts: list[bytes] = []
        size = 0
        while place < self.end:
            size += len(self._entries[place])
            if parts and size > most:
                break
            if self._entries[place]:
                parts.append(self._entries[place])
            place += 1
        return b"".join(parts), place

    def _forget(self, scope: str, generation: int) -> None:
        # Only those who have put a key there can still be connecting.
        meeting = self._meetings[scope, generation]
        if not meeting.done >= meeting.nodes:
            return
        del self._meetings[scope, generation]
        for place in meeting.places:
            self._total -= len(self._entries[place])
            self._entries[place] = b""

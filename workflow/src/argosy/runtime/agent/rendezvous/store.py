"""The ranks' key-value store: each node's copy, and the head's log.

Protocol: GET, PUT and DELETE of /scope/key, as in horovod/runner/http/http_server.py (0.28.1).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from queue import SimpleQueue

from .key_values import Entry, decode, encode, is_compressed, pack, unpack

# Gloo's value has 136 bytes per rank of the job: these limits suffice for 30,000 ranks, and bound the
# memory if a program misbehaves. The total counts compressed values.
MAX_VALUE = 4 << 20
MAX_TOTAL = 256 << 20
_MAX_PATH = 1024
# Cached unpacked values: the ranks of a node get the same value at about the same time.
_UNPACKED = 16


@dataclass
class _Scope:
    """This node's copy of a scope; ranks see only keys of the current generation."""

    generation: int = 0
    values: dict[int, dict[str, bytes]] = field(default_factory=dict)
    # This node's ranks of the generation, those that are connected, and those of the previous
    # generation that have not reported it although another rank has begun the next.
    ours: set[str] = field(default_factory=set)
    connected: set[str] = field(default_factory=set)
    late: set[str] = field(default_factory=set)


_NOTHING = _Scope()


class Rendezvous:
    """Values by scope and key. Thread-safe.

    Each `hvd.init()` uses the same scope again and must not get earlier addresses, so each has its own
    generation, which entries carry to other nodes. A node moves to the next generation as soon as its own
    ranks are connected, without waiting for the head: no order of messages can restore an old value.
    """

    def __init__(
        self, node: int = 0, outbox: SimpleQueue[bytes] | None = None, most: int = MAX_TOTAL
    ) -> None:
        self._node = node
        self._outbox = outbox
        self._most = most
        self._lock = threading.Lock()
        self._scopes: dict[str, _Scope] = {}
        self._serial = 0
        # Own keys that the head has not returned yet: until then, this node's value is the latest.
        self._unconfirmed: dict[tuple[str, str, int], int] = {}
        self._unpacked: dict[bytes, bytes] = {}
        self._total = 0
        self.met: set[int] = set()
        """Ranks of this node that were connected to all others."""

    def get(self, path: str) -> bytes | None:
        """Return the value at /scope/key, or None. Raises ValueError for a bad path."""
        name, key = _split(path)
        with self._lock:
            scope = self._scopes.get(name, _NOTHING)
            value = scope.values.get(scope.generation, {}).get(key)
            if value is None:
                return None
            return self._unpack(value) if is_compressed(value) else value[1:]

    def put(self, path: str, data: bytes) -> None:
        """Set a value. Raises ValueError for a bad path, MemoryError if the store is full."""
        name, key = _split(path)
        value = pack(data)
        with self._lock:
            scope = self._scopes.setdefault(name, _Scope())
            rank = rank_of(key)
            scope.late.discard(rank)
            if rank in scope.connected:
                late = scope.ours - scope.connected
                self._next_generation(name, scope)
                scope.late = late
            before = scope.values.get(scope.generation, {}).get(key, b"")
            total = self._total + len(value) - len(before)
            if len(data) > MAX_VALUE or total > self._most:
                raise MemoryError
            if rank:
                scope.ours.add(rank)
            self._set(scope, scope.generation, key, value)
            self._tell(Entry(self._node, self._serial + 1, scope.generation, name, key, value))

    def delete(self, path: str) -> None:
        """Record that the rank in the key is connected. Raises ValueError for a bad path.

        Slower ranks may still need its value, so the generation ends when all of this node's ranks are
        connected.
        """
        name, rank = _split(path)
        if name.startswith("global") and rank_of(rank):
            self.met.add(int(rank_of(rank)))
        with self._lock:
            scope = self._scopes.get(name)
            if not scope:
                return
            if rank in scope.late:
                scope.late.discard(rank)
            elif rank in scope.ours:
                scope.connected.add(rank)
                if scope.connected >= scope.ours:
                    self._next_generation(name, scope)

    def apply(self, message: bytes, place: int = 0) -> None:
        """Apply the entries of a message from the head. Raises ValueError."""
        entries = [entry for entry, _ in decode(message, place)]
        with self._lock:
            for entry in entries:
                self._apply(entry)

    def _apply(self, entry: Entry) -> None:
        scope = self._scopes.setdefault(entry.scope, _Scope())
        if entry.generation > scope.generation and not scope.ours:
            # Other nodes have met again without this node's ranks.
            self._drop(entry.scope, scope, entry.generation)
        if entry.generation < scope.generation:
            return
        identity = (entry.scope, entry.key, entry.generation)
        serial = self._unconfirmed.get(identity)
        if serial is not None:
            if (entry.node, entry.serial) != (self._node, serial):
                return
            del self._unconfirmed[identity]
        self._set(scope, entry.generation, entry.key, entry.value)

    def _set(self, scope: _Scope, generation: int, key: str, value: bytes) -> None:
        values = scope.values.setdefault(generation, {})
        self._total += len(value) - len(values.get(key, b""))
        values[key] = value

    def _next_generation(self, name: str, scope: _Scope) -> None:
        self._tell(Entry(self._node, self._serial + 1, scope.generation, name, "", b""))
        self._drop(name, scope, scope.generation + 1)
        scope.ours, scope.connected = set(), set()

    def _drop(self, name: str, scope: _Scope, generation: int) -> None:
        for old in [each for each in scope.values if each < generation]:
            values = scope.values.pop(old)
            self._total -= sum(map(len, values.values()))
            for key in values:
                self._unconfirmed.pop((name, key, old), None)
        scope.generation = generation
        self._unpacked.clear()

    def _tell(self, entry: Entry) -> None:
        if self._outbox is not None:
            self._serial = entry.serial
            if entry.key:
                self._unconfirmed[entry.scope, entry.key, entry.generation] = entry.serial
            self._outbox.put(encode(entry))

    def _unpack(self, value: bytes) -> bytes:
        data = self._unpacked.get(value)
        if data is None:
            if len(self._unpacked) >= _UNPACKED:
                del self._unpacked[next(iter(self._unpacked))]
            data = self._unpacked[value] = unpack(value)
        return data


def rank_of(key: str) -> str:
    """Return the rank in Gloo's key ``3`` or ``rank_3``, as text; empty without one."""
    rank = key[5:] if key.startswith("rank_") else key
    return rank if rank.isascii() and rank.isdigit() else ""


def _split(path: str) -> tuple[str, str]:
    empty, _, rest = path.partition("/")
    scope, _, key = rest.partition("/")
    if empty or not scope or not key or len(path) > _MAX_PATH:
        raise ValueError(f"not /scope/key: {path[:80]}")
    return scope, key


# Most bytes of an answer, unless a single value is longer: this bounds the head's memory.
MAX_ANSWER = 128 << 10


@dataclass
class _Meeting:
    """One generation of a scope: places of its entries, nodes with keys, and nodes that are done."""

    places: list[int] = field(default_factory=list)
    nodes: set[int] = field(default_factory=set)
    done: set[int] = field(default_factory=set)


class KvLog:
    """The head's log of entries. For one thread.

    Agents request entries from a place on, so they may lose their connection at any time.
    """

    def __init__(self, most: int = MAX_TOTAL) -> None:
        self._entries: list[bytes] = []
        self._meetings: dict[tuple[str, int], _Meeting] = {}
        self._most = most
        self._total = 0

    @property
    def end(self) -> int:
        """Place of the next entry."""
        return len(self._entries)

    def put(self, message: bytes, place: int = 0) -> None:
        """Add a node's entries. Raises ValueError, or MemoryError if the log is full."""
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
        """Return entries from a place on, at least one if there is any, and the next place."""
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
        # Only nodes with a key in this generation can still be connecting.
        meeting = self._meetings[scope, generation]
        if not meeting.done >= meeting.nodes:
            return
        del self._meetings[scope, generation]
        for place in meeting.places:
            self._total -= len(self._entries[place])
            self._entries[place] = b""

"""The keys and values that agents hand each other in bulk, as bytes."""

from __future__ import annotations

import struct
import zlib
from typing import Iterator, NamedTuple

# node, serial, generation, packed columns, lengths of scope, key and value
_HEAD = struct.Struct("!IIIBHHI")
# Gloo's value is a record for each peer of a rank, all but a few bytes of them the same: it grows
# with the job. Column by column it packs two-hundredfold. Short values do not gain.
_RECORD = 136
_WORTH_PACKING = 1 << 10

PUT = struct.Struct("!I")
"""Before the entries of a node's message: the node."""
NEWS_REQUEST = struct.Struct("!IQQ")
"""A node's question for news: the node, its place in the head's list, the orders it knows."""
NEWS = struct.Struct("!QQ")
"""Before the entries of the answer: the next place in the list, and the orders there are."""


class Entry(NamedTuple):
    """What a node has put; an empty key says that its ranks are done with this generation."""

    node: int
    serial: int
    generation: int
    scope: str
    key: str
    value: Value


class Value(NamedTuple):
    """A value, packed where that is worth it."""

    data: bytes
    columns: int = 0
    """How many columns were packed; 0: it is as it was put."""

    def unpacked(self) -> bytes:
        """Return the value as it was put."""
        if not self.columns:
            return self.data
        data = zlib.decompress(self.data)
        rows = len(data) // self.columns
        whole = bytearray(len(data))
        for column in range(self.columns):
            whole[column :: self.columns] = data[column * rows : (column + 1) * rows]
        return bytes(whole)


def pack(data: bytes) -> Value:
    """Return a value to be kept and passed on."""
    if len(data) >= _WORTH_PACKING:
        columns = 1 if len(data) % _RECORD else _RECORD
        packed = zlib.compress(b"".join(data[each::columns] for each in range(columns)), 4)
        if len(packed) < len(data):
            return Value(packed, columns)
    return Value(data)


def encode(entry: Entry) -> bytes:
    """Return an entry as bytes."""
    scope, key = entry.scope.encode("latin-1"), entry.key.encode("latin-1")
    data, columns = entry.value
    head = _HEAD.pack(
        entry.node,
        entry.serial,
        entry.generation,
        columns,
        len(scope),
        len(key),
        len(data),
    )
    return b"".join((head, scope, key, data))


def decode(message: bytes, place: int = 0) -> Iterator[tuple[Entry, bytes]]:
    """Yield the entries from `place` on, and each as bytes. Raises ValueError."""
    while place < len(message):
        start = place
        try:
            node, serial, generation, columns, *lengths = _HEAD.unpack_from(message, place)
        except struct.error:
            raise ValueError("an entry is cut off") from None
        place += _HEAD.size
        parts = []
        for length in lengths:
            parts.append(message[place : place + length])
            place += length
        if place > len(message):
            raise ValueError("an entry is cut off")
        scope, key = parts[0].decode("latin-1"), parts[1].decode("latin-1")
        value = Value(parts[2], columns)
        yield Entry(node, serial, generation, scope, key, value), message[start:place]

"""Encoding of the keys and values that agents exchange in bulk."""

from __future__ import annotations

import struct
import zlib
from typing import Iterator, NamedTuple

# node, serial, generation, lengths of scope, key and value
_HEAD = struct.Struct("!IIIHHI")
# Gloo's value has a record for each peer, and records differ in a few bytes. Compressed column by
# column, it shrinks two-hundredfold. Short values do not shrink. The head of a value is the width of its
# compressed records in bytes; 0: not compressed.
_RECORD = 136
_WORTH_PACKING = 1 << 10

PUT = struct.Struct("!I")
"""Head of a node's message: the node; entries follow."""
NEWS_REQUEST = struct.Struct("!IQQ")
"""A long poll: the node, its place in the head's log, and the number of its last order."""
NEWS = struct.Struct("!QQ")
"""Head of the answer: the next place in the log, and the number of the last order; entries follow."""


class Entry(NamedTuple):
    """A value put by a node; an empty key means that its ranks are done with this generation."""

    node: int
    serial: int
    generation: int
    scope: str
    key: str
    value: bytes
    """As `pack` returns it."""


def pack(data: bytes) -> bytes:
    """Return a value with its head, compressed if that saves space."""
    if len(data) >= _WORTH_PACKING:
        columns = 1 if len(data) % _RECORD else _RECORD
        packed = zlib.compress(b"".join(data[each::columns] for each in range(columns)), 4)
        if len(packed) < len(data):
            return bytes([columns]) + packed
    return bytes(1) + data


def unpack(value: bytes) -> bytes:
    """Reverse `pack`."""
    if not is_compressed(value):
        return value[1:]
    columns, data = value[0], zlib.decompress(value[1:])
    rows = len(data) // columns
    whole = bytearray(len(data))
    for column in range(columns):
        whole[column::columns] = data[column * rows : (column + 1) * rows]
    return bytes(whole)


def is_compressed(value: bytes) -> bool:
    return value[:1] > b"\0"


def encode(entry: Entry) -> bytes:
    scope, key = entry.scope.encode("latin-1"), entry.key.encode("latin-1")
    head = _HEAD.pack(
        entry.node,
        entry.serial,
        entry.generation,
        len(scope),
        len(key),
        len(entry.value),
    )
    return b"".join((head, scope, key, entry.value))


def decode(message: bytes, place: int = 0) -> Iterator[tuple[Entry, bytes]]:
    """Yield the entries from `place` on, each with its encoded bytes. Raises ValueError."""
    while place < len(message):
        start = place
        try:
            node, serial, generation, *lengths = _HEAD.unpack_from(message, place)
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
        yield Entry(node, serial, generation, scope, key, parts[2]), message[start:place]

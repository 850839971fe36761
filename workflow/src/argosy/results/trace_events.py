"""Chrome's trace events as Horovod writes them, in a stream that takes what damage there is.

The file is one JSON array. Only descriptions of tensors end a line, so nearly all of it can be a single
line of gigabytes; what a killed job leaves may be cut off. Horovod does not escape names of tensors.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from argosy.reading import open_regular

Event = dict[str, Any]

_CHUNK_BYTES = 1 << 18
_BOUNDARIES = (b"},{", b"},\n{")
"""How Horovod parts two events."""
_DECODER = json.JSONDecoder()


def trace_events(path: Path, top: Path) -> Iterator[tuple[list[Event], int]]:
    """Yield the file's events in their order, some thousands at a time, and how many of them are damaged.

    Memory does not grow with the file. Raises OSError.
    """
    with open_regular(path, top) as file:
        rest = file.read(_CHUNK_BYTES).lstrip().removeprefix(b"[")
        while chunk := file.read(_CHUNK_BYTES):
            rest += chunk
            # So much without a boundary is no event, and its end is not waited for.
            end = max(map(rest.rfind, _BOUNDARIES)) + 1 or len(rest)
            yield _parsed(rest[:end])
            rest = rest[end + 1 :]
    if last := rest.rstrip().removesuffix(b"]").rstrip().removesuffix(b",").rstrip():
        yield _parsed(last)


def _parsed(text: bytes) -> tuple[list[Event], int]:
    """Return the events of `text`, which has commas between them."""
    decoded = text.decode("utf-8", "replace")
    try:
        values = json.loads(f"[{decoded}]")
    except (ValueError, RecursionError):
        return _recovered(decoded)
    events = [value for value in values if _is_event(value)]
    return events, len(values) - len(events)


def _recovered(text: str) -> tuple[list[Event], int]:
    """Return the whole events among damage, and how many stretches of damage there are."""
    events: list[Event] = []
    damaged, in_damage, place = 0, False, 0
    while place < len(text):
        start = text.find("{", place)
        start = len(text) if start < 0 else start
        value, end = _decoded(text, start)
        is_odd = bool(text[place:start].strip(", \t\r\n"))
        is_event = _is_event(value)
        # What lies within a damaged event is damage as well, whole or not.
        damaged += not in_damage and (is_odd or (start < len(text) and not is_event))
        in_damage = not is_event
        if is_event:
            events.append(value)
        place = end
    return events, damaged


def _decoded(text: str, start: int) -> tuple[Any, int]:
    """Return the JSON value that begins at `start`, and where it ends; else None and the next place."""
    try:
        return _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None, start + 1


def _is_event(value: Any) -> bool:
    return isinstance(value, dict) and "ph" in value

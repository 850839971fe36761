"""Where a rank is, as the agents tell each other and as the researcher reads it."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Any, Iterable, Mapping, Sequence

from .stacks import Frame

WAITS = "waits"  # for other ranks, in a collective operation
IS = "is"  # anywhere else, and does not get on
WORKS = "works"  # uses a processor, and gets on
STOPPED = "stopped"
ENDED = "ended"
UNKNOWN = "unknown"  # no Python, or one that does not answer

_COLLECTIVES = ("/horovod/", "/torch/distributed/", "/tensorflow/python/distribute/")
# Of libraries, and of Python itself: not what a researcher wrote.
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python", "/argosy/python/", "<frozen ")
_MOST_GROUPS = 4


@dataclass(frozen=True)
class Place:
    """Where a rank was when it was looked at.

    `call`: the operation in which it waits, or the library's function that the program has called;
    `where`: file and line of the program itself.
    """

    rank: int
    state: str
    call: str = ""
    where: str = ""

    def message(self) -> dict[str, Any]:
        """Return the place as the agents tell each other."""
        return asdict(self)

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Place:
        """Return the reverse of `message`. Raises KeyError, TypeError or ValueError."""
        texts = (str(message[name]) for name in ("state", "call", "where"))
        return cls(int(message["rank"]), *texts)


def place_of(rank: int, frames: Sequence[Frame]) -> Place:
    """Return the place that a stack shows, the innermost frame first."""
    if not frames:
        return Place(rank, UNKNOWN)
    own = next((n for n, frame in enumerate(frames) if not is_library(frame)), None)
    inner = frames[: len(frames) if own is None else own]
    frame = frames[0 if own is None else own]
    where = f"{os.path.basename(frame.file)}:{frame.line}"
    # The outermost is what the program called.
    waits = [each.function for each in inner if any(part in each.file for part in _COLLECTIVES)]
    if waits:
        return Place(rank, WAITS, waits[-1], where)
    called = f"{inner[-1].function} of {os.path.basename(inner[-1].file)}" if inner else ""
    return Place(rank, IS, "" if own is None else called, where)


def sentence(places: Iterable[Place]) -> str:
    """`rank 0 waits in allreduce (train.py:41); rank 1 is at train.py:57`: those that wait first."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for place in sorted(places, key=lambda each: (each.state != WAITS, each.rank)):
        groups.setdefault((place.state, place.call, place.where), []).append(place.rank)
    parts = [_group(ranks, *key) for key, ranks in groups.items()]
    left_out = len(parts) - _MOST_GROUPS
    more = [f"{left_out} more places"] if left_out > 0 else []
    return "; ".join(parts[:_MOST_GROUPS] + more)


def _group(ranks: Sequence[int], state: str, call: str, where: str) -> str:
    one = len(ranks) == 1
    who = f"rank {ranks[0]}" if one else f"ranks {_ranges(ranks)}"
    if state == WAITS:
        return f"{who} {'waits' if one else 'wait'} in {call} ({where})"
    verb = "is" if one else "are"
    if state in (IS, WORKS):
        return f"{who} {verb} at {where}" + (f" ({call})" if call else "")
    if state == STOPPED:
        return f"{who} {verb} stopped (by a signal or a debugger)"
    if state == ENDED:
        return f"{who} {'has' if one else 'have'} ended"
    return f"{who} gave no Python stack"


def _ranges(numbers: Sequence[int]) -> str:
    """`0-6, 9` of sorted numbers."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def is_library(frame: Frame) -> bool:
    """Return whether a frame is of a library, or of Python itself, and not of the program."""
    return any(part in frame.file for part in _LIBRARIES)

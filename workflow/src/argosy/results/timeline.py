"""Sums the activities of Horovod's timeline for the table `timeline`.

The file is one JSON array of Chrome trace events, nearly all on a single line of perhaps gigabytes. A
killed job leaves it truncated. Horovod does not escape names of tensors.

The format is that of Horovod 0.28.1, horovod/common/timeline.cc. A tensor is negotiated, then operated on.
An operation consists of successive activities, so at most two are open at once.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

from argosy.results.measured_run import MeasuredRun
from argosy.results.rows import Row
from argosy_common.reading import open_regular, site_of

Event = dict[str, Any]

_CHUNK_BYTES = 1 << 18
_BOUNDARIES = (b"},{", b"},\n{")
"""Horovod's separators of events."""
_DECODER = json.JSONDecoder()


def trace_events(path: Path, top: Path) -> Iterator[tuple[list[Event], int]]:
    """Yield the file's events in order, thousands at a time, with the number of damaged ones.

    Memory does not grow with the file. Raises OSError.
    """
    with open_regular(path, top) as file:
        rest = file.read(_CHUNK_BYTES).lstrip().removeprefix(b"[")
        while chunk := file.read(_CHUNK_BYTES):
            rest += chunk
            # A chunk without a separator is damage: do not wait for its end.
            end = max(map(rest.rfind, _BOUNDARIES)) + 1 or len(rest)
            yield _parsed(rest[:end])
            rest = rest[end + 1 :]
    if last := rest.rstrip().removesuffix(b"]").rstrip().removesuffix(b",").rstrip():
        yield _parsed(last)


def _parsed(text: bytes) -> tuple[list[Event], int]:
    """Parse comma-separated events; return them and the number of damaged ones."""
    decoded = text.decode("utf-8", "replace")
    try:
        values = json.loads(f"[{decoded}]")
    except (ValueError, RecursionError):
        return _recovered(decoded)
    events = [value for value in values if _is_event(value)]
    return events, len(values) - len(events)


def _recovered(text: str) -> tuple[list[Event], int]:
    """Return the intact events of damaged text, and the number of damaged stretches."""
    events: list[Event] = []
    damaged, in_damage, place = 0, False, 0
    while place < len(text):
        start = text.find("{", place)
        start = len(text) if start < 0 else start
        value, end = _decoded(text, start)
        is_odd = bool(text[place:start].strip(", \t\r\n"))
        is_event = _is_event(value)
        # Anything within a damaged event counts as damage.
        damaged += not in_damage and (is_odd or (start < len(text) and not is_event))
        in_damage = not is_event
        if is_event:
            events.append(value)
        place = end
    return events, damaged


def _decoded(text: str, start: int) -> tuple[Any, int]:
    """Return the JSON value at `start` and its end; None and the next position if there is none."""
    try:
        return _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None, start + 1


def _is_event(value: Any) -> bool:
    return isinstance(value, dict) and "ph" in value


NEGOTIATE = "NEGOTIATE_"
"""Prefix of the wait until all ranks have a tensor."""
OPERATIONS = (
    *("ALLREDUCE", "ALLGATHER", "BROADCAST", "JOIN", "ADASUM", "ALLTOALL", "BARRIER"),
    *("REDUCESCATTER", "ERROR"),
)
_FILE = "timeline.json"
_UNTIMED = ("M", "X", "i")
"""Phases of events without duration: tensor names, ticks of ranks, and cycle marks."""
# Limits far beyond any training, so that damaged files take little memory.
_MOST_ACTIVITIES = 1000
_MOST_TENSORS = 1 << 27
_MOST_OPEN = 1 << 20
_LONGEST_NAME = 200
_LAST_US = 2.0**53


@dataclass
class Activity:
    """One activity of one operation, over all tensors; times in microseconds.

    `span_us` is the time with at least one tensor in the activity: fused tensors share it.
    """

    events: int = 0
    sum_us: float = 0.0
    span_us: float = 0.0
    _tensors: bytearray = field(default_factory=bytearray)
    _open: int = 0
    _since_us: float = 0.0
    _last_end_us: float = 0.0

    @property
    def tensors(self) -> int:
        """Number of different tensors."""
        return sum(byte.bit_count() for byte in self._tensors)

    def begin(self, tensor: int, at_us: float) -> None:
        if self._open == 0:
            self._since_us = self._last_end_us = at_us
        self._open += 1
        # A bit per tensor, since unnamed tensors get a new number in every step.
        place = tensor // 8
        if place >= len(self._tensors):
            self._tensors.extend(bytes(place + 1 - len(self._tensors)))
        self._tensors[place] |= 1 << tensor % 8

    def end(self, seconds_us: float, at_us: float) -> None:
        self.events += 1
        self.sum_us += seconds_us
        self._last_end_us = max(self._last_end_us, at_us)
        self.drop()

    def drop(self) -> None:
        """Close an open activity without counting it."""
        self._open -= 1
        if self._open == 0:
            self.span_us += self._last_end_us - self._since_us


@dataclass(frozen=True)
class Timeline:
    """A run's timeline: activities by (operation, activity), and the number of unreadable events."""

    activities: Mapping[tuple[str, str], Activity] = field(default_factory=dict)
    unreadable: int = 0


def run_timeline(run: MeasuredRun) -> Timeline:
    """Return the timeline of a completed run's last job; empty if there is none. Raises OSError."""
    if run.state == "completed" and run.current:
        for path in run.records(run.current.name):
            if path.name == _FILE:
                return read_timeline(path, site_of(run.listing.path))
    return Timeline()


def read_timeline(path: Path, top: Path) -> Timeline:
    """Sum up a file, with a few hundred kilobytes of it in memory at a time. Raises OSError."""
    sums = _Sums()
    for events, damaged in trace_events(path, top):
        sums.unreadable += damaged
        sums.take_all(events)
    sums.finish()
    return Timeline(sums.activities, sums.unreadable)


def timeline_rows(run: MeasuredRun, timeline: Timeline) -> Iterator[Row]:
    for (operation, name), activity in timeline.activities.items():
        if activity.events:
            yield {
                "experiment": run.asked.experiment,
                "run_id": run.asked.run_id,
                "operation": operation,
                "activity": name,
                "events": activity.events,
                "seconds": activity.sum_us / 1e6,
                "span_s": activity.span_us / 1e6,
                "tensors": activity.tensors,
            }


_Begun = tuple[tuple[str, str], float]
"""((operation, activity), start in microseconds)."""


class _Sums:
    def __init__(self) -> None:
        self.activities: dict[tuple[str, str], Activity] = {}
        self.unreadable = 0
        self._open: dict[int, list[_Begun]] = {}

    def take_all(self, events: Iterable[Event]) -> None:
        for event in events:
            phase = event.get("ph")
            if phase in _UNTIMED:
                continue
            tensor, at_us = event.get("pid"), event.get("ts")
            if not (_is_tensor(tensor) and _is_time(at_us)):
                self.unreadable += 1
            elif phase == "B":
                self._begin(tensor, at_us, event.get("name"))
            elif phase == "E":
                self._end(tensor, at_us)
            else:
                self.unreadable += 1

    def finish(self) -> None:
        """Drop activities without an end."""
        for tensor in [*self._open]:
            self._drop(tensor, keep=0)

    def _begin(self, tensor: int, at_us: float, name: object) -> None:
        if not isinstance(name, str) or len(name) > _LONGEST_NAME:
            self.unreadable += 1
            return
        is_outer = name.startswith(NEGOTIATE) or name in OPERATIONS
        # If an end was lost, the next begin closes the activity.
        self._drop(tensor, keep=0 if is_outer else 1)
        begun = self._open.get(tensor, [])
        operation = begun[0][0][0] if begun else name.removeprefix(NEGOTIATE)
        key = (operation, name)
        if not (begun or is_outer) or self._is_full(key):
            self.unreadable += 1
            return
        self.activities.setdefault(key, Activity()).begin(tensor, at_us)
        self._open.setdefault(tensor, []).append((key, at_us))

    def _is_full(self, key: tuple[str, str]) -> bool:
        is_new = key not in self.activities
        return len(self._open) >= _MOST_OPEN or (
            is_new and len(self.activities) >= _MOST_ACTIVITIES
        )

    def _end(self, tensor: int, at_us: float) -> None:
        begun = self._open.get(tensor)
        if not begun or at_us < begun[-1][1]:
            self.unreadable += 1
            return
        key, since_us = begun.pop()
        if not begun:
            del self._open[tensor]
        self.activities[key].end(at_us - since_us, at_us)

    def _drop(self, tensor: int, keep: int) -> None:
        """Drop a tensor's open activities beyond the outermost `keep`, and count them as unreadable."""
        begun = self._open.get(tensor, [])
        while len(begun) > keep:
            key, _ = begun.pop()
            self.activities[key].drop()
            self.unreadable += 1
        if tensor in self._open and not begun:
            del self._open[tensor]


def _is_tensor(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < _MOST_TENSORS


def _is_time(value: object) -> TypeGuard[float]:
    # NaN fails the comparison; a bool is an int in Python.
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LAST_US

"""Hang detection on one node: signs of life of its ranks, inspections, and stacks.

Signs of life are records, output, and bytes read or written. CPU time is none: waiting ranks poll, and
an endless loop uses a whole core.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import threading
import time
from collections import deque
from dataclasses import replace
from typing import Callable, Iterable, Mapping, Sequence

from ...contract.files import open_regular, write_all
from ...contract.steps import last_steps
from ..coordination.failure import HUNG, last_lines, raised_at_last
from ..files import open_for_append
from ..processes.rank import Rank
from ..transport.messages import Order
from .inspection import Finding, inspect
from .places import Place
from .processes import bytes_moved, family, processes
from .stacks import VARIABLE, StackFolder

# Fewest bytes read or written that count as a sign of life: monitors write samples.
_LEAST_BYTES = 1 << 20
# Seconds without other signs until counters of processes are read, and between readings.
_CALM, _EVERY = 15.0, 5.0
# Seconds between readings of new steps, and how much of a file is read (rows, bytes).
_PACE_EVERY, _TAIL_ROWS, _TAIL = 5.0, 40, 4096
_STEPS_KEPT = 1000
# Most seconds of silence that one check adds: the agent may have been stopped.
_LONGEST_BEAT = 5.0


class Activity:
    """Time since the last sign of life of this node's ranks, and the duration of their steps."""

    def __init__(self) -> None:
        self.quiet = 0.0
        """Seconds without a sign of life."""
        self._looked = time.monotonic()
        self._words: dict[int, int] = {}
        self._files: dict[str, tuple[int, int]] = {}
        self._moved: dict[int, int] = {}
        self._moved_looked = 0.0
        self._pace_looked = 0.0
        self._steps: deque[float] = deque(maxlen=_STEPS_KEPT)

    @property
    def pace(self) -> float | None:
        """Median seconds of steps, collectives and times between prints so far, or None."""
        return statistics.median(self._steps) if self._steps else None

    def look(self, ranks: Iterable[Rank]) -> None:
        """Check for signs of life; call this about once a second."""
        now = time.monotonic()
        self.quiet += min(now - self._looked, _LONGEST_BEAT)
        self._looked = now
        ranks = list(ranks)
        recorded = [rank for rank in ranks if self._has_recorded(rank)]
        printed = [rank for rank in ranks if self._has_printed(rank)]
        self._learn_pace([*recorded, *printed], now)
        if recorded or printed:
            self.quiet, self._moved = 0.0, {}
        elif self.quiet > _CALM and now > self._moved_looked + _EVERY:
            self._moved_looked = now
            if self._has_moved(ranks):
                self.quiet = 0.0

    def _has_printed(self, rank: Rank) -> bool:
        before = self._words.get(rank.pid, 0)
        self._words[rank.pid] = rank.pump.words
        return rank.pump.words != before

    def _has_recorded(self, rank: Rank) -> bool:
        # Check both files, so that each change counts once.
        steps, lines = self._has_changed(rank.steps_file), self._has_changed(rank.lines_file)
        return steps or lines

    def _has_changed(self, path: str) -> bool:
        try:
            status = os.stat(path)
        except OSError:
            return False
        before = self._files.get(path)
        self._files[path] = (status.st_size, status.st_mtime_ns)
        return before != self._files[path]

    def _learn_pace(self, ranks: Iterable[Rank], now: float) -> None:
        for rank in ranks:
            if not self._steps or now > self._pace_looked + _PACE_EVERY:
                self._pace_looked = now
                self._steps.extend(_seconds_of_last_steps(rank.steps_file))
                collectives = _last_records(rank.lines_file, "collective", "seconds")
                prints = _last_records(rank.printed_file, "printed", "at")
                self._steps.extend(collectives)
                self._steps.extend(prints[n] - prints[n - 1] for n in range(1, len(prints)))

    def _has_moved(self, ranks: Iterable[Rank]) -> bool:
        everybody = processes()
        members = {each.pid for rank in ranks for each in family(everybody, rank.pid)}
        moved = {pid: bytes_moved(pid) for pid in members}
        if not self._moved:
            self._moved = moved
            return False
        if sum(count - self._moved.get(pid, 0) for pid, count in moved.items()) < _LEAST_BYTES:
            return False
        self._moved = moved
        return True


def _seconds_of_last_steps(path: str) -> list[float]:
    try:
        with open(open_regular(path), "rb") as file:
            return [step.seconds for step in last_steps(file.fileno(), _TAIL_ROWS)]
    except OSError:
        return []


def _last_records(path: str, kind: str, number: str) -> list[float]:
    """Return the value `number` of the last records of a kind."""
    try:
        with open(open_regular(path), "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            lines = file.read().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            record = json.loads(line)
            if record["kind"] == kind:
                found.append(float(record[number]))
        except (ValueError, KeyError, TypeError):
            continue
    return found


_LONGEST = 200  # characters of an exception
_CHECK_EVERY = 0.9  # seconds between checks for signs of life


class NodeWatch:
    """Hang detection of this node; runs in the supervisor's thread.

    Args:
        found: called in another thread with the result of an inspection.
    """

    def __init__(self, found: Callable[[Finding], None]) -> None:
        self._found = found
        self.activity = Activity()
        self.finding = Finding(0, (), {})
        """Result of the last inspection."""
        self.stall = ""
        self.missing: tuple[int, ...] = ()
        """Ranks that Horovod misses, by this node's output: as text (`stall`) and by number."""
        self._folder = StackFolder()
        self._looked = 0.0
        self._asked = 0
        self._written = False

    def open(self) -> Mapping[str, str]:
        """Start watching and return the variables that ranks need for it."""
        self.activity = Activity()
        path = self._folder.make()
        return {VARIABLE: path} if path else {}

    def close(self) -> None:
        self._folder.remove()

    def look(self, ranks: Sequence[Rank]) -> None:
        """Check for signs of life when it is time."""
        now = time.monotonic()
        if now < self._looked + _CHECK_EVERY:
            return
        self._looked = now
        self.activity.look([rank for rank in ranks if rank.running])
        said = [rank.pump.stall for rank in ranks]
        if self.activity.quiet == 0:
            for each in said:
                each.forget()
        self.stall, self.missing = next(
            ((each.text, each.missing) for each in said if each.missing), ("", ())
        )

    def obey(self, order: Order, ranks: Sequence[Rank]) -> None:
        """Inspect the ranks, or log their stacks, as the head orders."""
        if order.look > self._asked:
            self._asked = order.look
            pids = {each.number: each.pid if each.running else 0 for each in ranks}
            logs = {each.number: each.log for each in ranks}
            look = order.look, pids, logs
            threading.Thread(target=self._inspect, args=look, daemon=True).start()
        if order.failure and order.failure.kind == HUNG and not self._written:
            self._written = True
            self._write_stacks(ranks)

    def _inspect(self, number: int, pids: Mapping[int, int], logs: Mapping[int, str]) -> None:
        found = inspect(number, pids, self._folder)
        places = tuple(_after_exception(each, logs[each.rank]) for each in found.places)
        self._found(replace(found, places=places))

    def _write_stacks(self, ranks: Sequence[Rank]) -> None:
        for rank in ranks:
            text = self.finding.stacks.get(rank.number)
            if text:
                # On a full disk, the cause must suffice.
                with contextlib.suppress(OSError):
                    _append(rank.log, f"\nargosy: Python stacks of rank {rank.number}, {text}")


def _after_exception(place: Place, log: str) -> Place:
    """Return a place with the exception that its rank printed last, if it did.

    At its end such a rank may wait for others, as JAX has it do.
    """
    raised = raised_at_last(last_lines(log))[:_LONGEST]
    return replace(place, where=f"{place.where}, after {raised}") if raised else place


def _append(path: str, text: str) -> None:
    descriptor = open_for_append(path)
    try:
        write_all(descriptor, text.encode())
    finally:
        os.close(descriptor)

"""Hang detection on one node: signs of life of its ranks, inspections, and stacks.

Signs of life are records, output, and bytes read or written. CPU time is none: waiting ranks poll, and
an endless loop uses a whole core.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import threading
import time
from collections import deque
from dataclasses import replace
from typing import Callable, Iterable, Iterator, Mapping, Sequence

from ...contract.files import write_all
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
        # Size and times of change of each file of records; times between changes, by kind of file.
        self._files: dict[str, tuple[int, int, float]] = {}
        kinds = ("steps", "printed", "lines")
        self._steps: dict[str, deque[float]] = {kind: deque(maxlen=_STEPS_KEPT) for kind in kinds}
        self._moved: dict[int, int] = {}
        self._moved_looked = 0.0

    @property
    def pace(self) -> float | None:
        """Median seconds between steps, or else printed numbers, or else other records; None: unknown.

        Changes are seen about once a second, so this is no shorter.
        """
        return next((statistics.median(each) for each in self._steps.values() if each), None)

    def look(self, ranks: Iterable[Rank]) -> None:
        """Check for signs of life; call this about once a second."""
        now = time.monotonic()
        self.quiet += min(now - self._looked, _LONGEST_BEAT)
        self._looked = now
        ranks = list(ranks)
        # Check all, so that each change counts once.
        signs = [each for rank in ranks for each in (self._has_printed(rank), *self._records(rank))]
        if any(signs):
            self.quiet, self._moved = 0.0, {}
        elif self.quiet > _CALM and now > self._moved_looked + _EVERY:
            self._moved_looked = now
            if self._has_moved(ranks):
                self.quiet = 0.0

    def _has_printed(self, rank: Rank) -> bool:
        before = self._words.get(rank.pid, 0)
        self._words[rank.pid] = rank.pump.words
        return rank.pump.words != before

    def _records(self, rank: Rank) -> Iterator[bool]:
        """Yield whether each of a rank's files of records has changed."""
        files = {"steps": rank.steps_file, "printed": rank.printed_file, "lines": rank.lines_file}
        for kind, path in files.items():
            try:
                status = os.stat(path)
            except OSError:
                continue
            size, changed, before = self._files.get(path, (-1, 0, 0.0))
            has_changed = (size, changed) != (status.st_size, status.st_mtime_ns)
            if has_changed:
                self._files[path] = status.st_size, status.st_mtime_ns, self._looked
                if before:
                    self._steps[kind].append(self._looked - before)
            yield has_changed

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

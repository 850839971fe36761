"""This node's part in finding a hang: signs of life of its ranks, a look at them, and their stacks."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Callable, Mapping, Protocol, Sequence

from ...contract.files import write_all
from ..coordination.failure import HUNG
from ..files import open_for_append
from ..transport.messages import Order
from .activity import Activity, Watched
from .inspection import Finding, Inspection, Subject
from .places import Place
from .stacks import VARIABLE, StackFolder

_EVERY = 0.9  # seconds between two looks for signs of life


class WatchedRank(Watched, Protocol):
    """What is known of a rank."""

    @property
    def number(self) -> int:
        """Among all ranks of the job."""

    @property
    def running(self) -> bool:
        """Whether it has not ended."""

    @property
    def log(self) -> str:
        """The file of its output."""

    @property
    def stall(self) -> str:
        """Whom Horovod misses, as it has said in this rank's output; empty: nobody."""

    @property
    def missing(self) -> tuple[int, ...]:
        """The ranks that Horovod misses, by the same words."""

    def forget_stall(self) -> None:
        """Note that the stall is over."""


class NodeWatch:
    """Everything but `found` happens in the supervisor's thread.

    Args:
        found: called in another thread with the result of a look.
    """

    def __init__(self, found: Callable[[Finding], None]) -> None:
        self._found = found
        self._activity = Activity()
        self._folder = StackFolder()
        self._looked = 0.0
        self._finding = Finding(0, (), {})
        self._stall = ""
        self._missing: tuple[int, ...] = ()
        self._asked = 0
        self._written = False

    def open(self) -> Mapping[str, str]:
        """Begin to watch; the variables that ranks need for it."""
        self._activity = Activity()
        path = self._folder.make()
        return {VARIABLE: path} if path else {}

    def close(self) -> None:
        """Leave nothing behind."""
        self._folder.remove()

    @property
    def quiet(self) -> float:
        """Seconds without a sign of life."""
        return self._activity.quiet

    @property
    def pace(self) -> float | None:
        """Median seconds of a step; None: none is known."""
        return self._activity.pace

    @property
    def looked(self) -> int:
        """The number of the last look."""
        return self._finding.number

    @property
    def places(self) -> tuple[Place, ...]:
        """What it found."""
        return self._finding.places

    @property
    def stall(self) -> str:
        """Whom Horovod misses, as far as this node's ranks say."""
        return self._stall

    @property
    def missing(self) -> tuple[int, ...]:
        """The ranks that it misses."""
        return self._missing

    def look(self, ranks: Sequence[WatchedRank]) -> None:
        """Look for signs of life, if it is time."""
        now = time.monotonic()
        if now < self._looked + _EVERY:
            return
        self._looked = now
        self._activity.look([rank for rank in ranks if rank.running])
        if self.quiet == 0:
            for rank in ranks:
                rank.forget_stall()
        warned = next((rank for rank in ranks if rank.missing), None)
        self._stall, self._missing = (warned.stall, warned.missing) if warned else ("", ())

    def obey(self, order: Order, ranks: Sequence[WatchedRank]) -> None:
        """Look at the ranks, or keep their stacks, as the head wants."""
        if order.look > self._asked:
            self._asked = order.look
            subjects = [Subject(each.number, each.pid if each.running else None) for each in ranks]
            Inspection(order.look, subjects, self._folder, self._found).start()
        if order.failure and order.failure.kind == HUNG and not self._written:
            self._written = True
            self._write_stacks(ranks)

    def take(self, finding: Finding) -> None:
        """Take the result of a look."""
        self._finding = finding

    def _write_stacks(self, ranks: Sequence[WatchedRank]) -> None:
        for rank in ranks:
            text = self._finding.stacks.get(rank.number)
            if text:
                # On a full disk the cause alone has to do.
                with contextlib.suppress(OSError):
                    _append(rank.log, f"\nargosy: Python stacks of rank {rank.number}, {text}")


def _append(path: str, text: str) -> None:
    descriptor = open_for_append(path)
    try:
        write_all(descriptor, text.encode())
    finally:
        os.close(descriptor)

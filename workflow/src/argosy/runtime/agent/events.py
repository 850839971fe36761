"""What the supervisor hears of, in the order in which it happens."""

from __future__ import annotations

import collections
import contextlib
import os
import select
from dataclasses import dataclass
from typing import Union

from .coordination.failure import Failure, Sighting
from .hangs.inspection import Finding
from .transport.messages import Order


@dataclass(frozen=True)
class SignalEvent:
    """A signal reached the agent."""

    number: int


Event = Union[SignalEvent, Failure, Sighting, Order, Finding]
"""A sighting is that of a head that is given up."""


class EventQueue:
    """Events of other threads and of signal handlers, for one thread.

    No queue of Python's will do: queue.SimpleQueue, the only one that handlers may put to, waits for ever
    when a signal comes just as its timeout ends (CPython 3.11: it goes on with a negative one).
    """

    def __init__(self) -> None:
        self._events: collections.deque[Event] = collections.deque()
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wake, False)
        self._poll = select.poll()
        self._poll.register(self._woken, select.POLLIN)

    def put(self, event: Event) -> None:
        """Add an event. Never waits."""
        self._events.append(event)
        # A pipe that is full wakes as well.
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake, b"\0")

    def get(self, timeout: float) -> Event | None:
        """Return the oldest event, or None when `timeout` seconds have brought none."""
        if not self._events:
            self._poll.poll(timeout * 1000)
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, select.PIPE_BUF)
        return self._events.popleft() if self._events else None

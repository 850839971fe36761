"""The supervisor's events, in the order of their arrival."""

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
    """A signal that the agent received."""

    number: int


Event = Union[SignalEvent, Failure, Sighting, Order, Finding]
"""A `Sighting` means that the head was given up."""


class EventQueue:
    """Queue of events from other threads and signal handlers, for one reading thread.

    Signal handlers may put only into `queue.SimpleQueue`, which can block for ever: CPython 3.11 waits
    with a negative timeout if a signal arrives just as the timeout ends.
    """

    def __init__(self) -> None:
        self._events: collections.deque[Event] = collections.deque()
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wake, False)
        self._poll = select.poll()
        self._poll.register(self._woken, select.POLLIN)

    def put(self, event: Event) -> None:
        """Add an event without blocking."""
        self._events.append(event)
        # A full pipe wakes the reader as well.
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake, b"\0")

    def get(self, timeout: float) -> Event | None:
        """Return the oldest event; None if none arrives within `timeout` seconds."""
        if not self._events:
            self._poll.poll(timeout * 1000)
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, select.PIPE_BUF)
        return self._events.popleft() if self._events else None

"""Heartbeats: this node's reports to the head, and the head's orders."""

from __future__ import annotations

import threading
import time
from typing import Callable, Union

from ..settings import Settings
from ..transport.client import FullError, HeadClient
from ..transport.messages import Order, Report
from .coordinator import HEARTBEAT_TIMEOUT_S, Coordinator, vanished
from .failure import Failure, Sighting
from .meeting import Search
from .server import BEAT_PATH

# Seconds between two reports. The head requests a report when it has new orders.
_CALM = 1.0
# The same for the head's own reports.
_CLOCK, _CLOCK_IN_TRAINING = 0.1, 0.5
# Seconds until the next try to reach the head, and additional seconds per node of the job.
_RETRY, _RETRY_EACH = 0.02, 0.0002
_ANSWER_TIME = 2.0
NO_ANSWER = (OSError, ValueError, FullError)


class RemoteLink:
    """Connection to a head on another node; `beat` raises one of `NO_ANSWER`."""

    calm = _CALM

    def __init__(self, settings: Settings) -> None:
        self._client = HeadClient(settings)
        self.retry = _RETRY + _RETRY_EACH * settings.nodes

    def beat(self, report: Report) -> Order:
        return Order.decode(self._client.ask(BEAT_PATH, report.encode(), _ANSWER_TIME))


class LocalLink:
    """Connection of the head to itself; its beats are the clock of the coordinator.

    Beats are slower while ranks train: silent nodes are detected after seconds anyway.
    """

    retry = _CLOCK

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self.calm = _CLOCK

    def beat(self, report: Report) -> Order:
        order = self._coordinator.beat(report)
        self.calm = _CLOCK_IN_TRAINING if order.start and not order.stop else _CLOCK
        return order


Link = Union[RemoteLink, LocalLink]
"""A connection to the head; `calm` and `retry` are seconds from a report, and a failed one, to the next."""


class Heartbeat(threading.Thread):
    """Thread that reports news at once, and regularly otherwise.

    Args:
        link: the connection to the head.
        report: the first report.
        put: called in this thread with each new order, and with a `Sighting` when the head is given up.
        search: judges the attempts to reach the head before its first answer.
    """

    def __init__(
        self,
        link: Link,
        report: Report,
        put: Callable[[Order | Sighting], None],
        search: Search,
    ) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self._link = link
        self._report = report
        self._order: Order | None = None
        self._put = put
        self._search = search
        self._wake = threading.Event()
        self._over = False
        self._answered = False
        self._last_contact = time.monotonic()
        self._interval = link.calm

    def tell(self, report: Report, *, now: bool) -> None:
        """Send a report, now or with the next beat."""
        self._report = report
        if now:
            self._wake.set()

    def wake(self) -> None:
        """Request orders now."""
        self._wake.set()

    def close(self) -> None:
        """Stop reporting after the current beat."""
        self._over = True
        self._wake.set()
        self.join(_ANSWER_TIME)

    def run(self) -> None:
        while not self._over:
            self._wake.clear()
            self._beat()
            self._wake.wait(self._interval)

    def _beat(self) -> None:
        report = self._report
        try:
            order = self._link.beat(report)
        except NO_ANSWER as error:
            self._miss(report, error)
        else:
            self._answered = True
            self._last_contact = time.monotonic()
            self._interval = self._link.calm
            if order != self._order:
                self._order = order
                self._put(order)

    def _miss(self, report: Report, error: BaseException) -> None:
        if not self._answered and (failure := self._search.failed(error)):
            self._give_up(failure, time.monotonic())
            return
        now = time.monotonic()
        silent = now - self._last_contact
        # A cancelled job does not wait for a head that may never start.
        limit = (
            HEARTBEAT_TIMEOUT_S
            if self._answered or report.cancelled
            else self._search.start_timeout
        )
        if silent <= limit:
            self._interval = self._link.retry
        elif self._answered:
            self._give_up(vanished(0), self._last_contact)
        else:
            self._give_up(self._search.late(error, silent), now)

    def _give_up(self, failure: Failure, seen: float) -> None:
        self._over = True
        self._put(Sighting(failure, seen))

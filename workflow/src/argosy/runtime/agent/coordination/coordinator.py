"""The head's view of all nodes: when to start, when to stop, and how the job ended."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Callable, Mapping, Sequence

from ..hangs.judge import HangJudge
from ..status import CANCELLED, COMPLETED, FAILED, INTERRUPTED
from ..transport.messages import Order, Outcome, Report
from .failure import (
    VANISHED,
    WINDOW,
    Failure,
    Finished,
    Sighting,
    ends_the_job,
    may_follow_from_a_signal,
    root_cause,
    window,
)

# Seconds of silence after which a node counts as lost.
HEARTBEAT_TIMEOUT_S = 5.0
# Most seconds of silence that one step adds: the head itself may have been stopped.
_LONGEST_STEP = 1.0
# Seconds between checks of all nodes: with a thousand nodes, a check at each heartbeat would cost a core.
_SHORTEST_STEP = 0.05


def vanished(node: int) -> Failure:
    """Return the failure of a node that stopped answering."""
    cause = f"its agent vanished (no heartbeat for {HEARTBEAT_TIMEOUT_S:.0f} s)"
    return Failure(node, None, cause, time.time(), VANISHED)


@dataclass
class _Node:
    appeared: bool = False
    ended: bool = False
    informed: bool = False
    gone: bool = False
    silent: float = 0.0  # seconds
    last_seen: float = field(default_factory=time.monotonic)


class Coordinator:
    """Receives the reports of all nodes and returns orders. Thread-safe.

    Args:
        nodes: the number of nodes.
        start_timeout: seconds to wait for the first report of each node.
        accept: called when every rank ended well; may return a failure of the job.
        changed: called when there are new orders.
        hang_timeout: the experiment's, as in `HangJudge`.
        time_limit: the monotonic time of the job's end; None: unknown.
        ports: as in `Order`; None: the start waits for `set_ports`.
    """

    def __init__(
        self,
        nodes: int,
        start_timeout: float,
        accept: Callable[[], Failure | None],
        changed: Callable[[], None] = lambda: None,
        *,
        hang_timeout: float | None = None,
        time_limit: float | None = None,
        ports: Mapping[str, int] | None = {},
    ) -> None:
        self._hangs = HangJudge(nodes, hang_timeout, time_limit)
        self._nodes = [_Node() for _ in range(nodes)]
        self._missing = nodes
        self._start_timeout = start_timeout
        self._accept = accept
        self._ports = ports
        self._changed = changed
        self._lock = threading.Lock()
        self._clock = self._swept = time.monotonic()
        self._sightings: list[Sighting] = []
        self._finished: list[Finished] = []
        self._unmeasured: Failure | None = None
        self._cancelled: float | None = None
        self._signalled: float | None = None
        self._warned = False
        self._interrupted = False
        self._outcome: Outcome | None = None

    def beat(self, report: Report) -> Order:
        """Process a node's report. Raises ValueError for an unknown node."""
        if not 0 <= report.node < len(self._nodes):
            raise ValueError(f"there is no node {report.node}")
        return self._take(lambda: self._note(report))

    def set_ports(self, ports: Mapping[str, int]) -> None:
        """Set the ports in `Order`."""

        def news() -> None:
            self._ports = ports

        self._take(news)

    def warn(self) -> None:
        """Record that the job will end soon."""
        self._take(self._be_warned)

    def fail(self, failure: Failure) -> None:
        """End the job for a failure that is in no report."""
        self._take(lambda: self._see(failure, self._clock))

    def give_up(self, failure: Failure) -> None:
        """End the job for a node that will never report."""
        if failure.node is not None and 0 <= failure.node < len(self._nodes):
            self._nodes[failure.node].gone = True
        self.fail(failure)

    @property
    def silence(self) -> str:
        """Duration and place of the job's silence, as in `HangJudge`."""
        return self._hangs.silence

    def missing(self) -> list[int]:
        """Return the nodes without a report so far; empty once the job has ended."""
        with self._lock:
            if self._outcome or not self._missing:
                return []
            return [number for number, node in enumerate(self._nodes) if not node.appeared]

    def _take(self, news: Callable[[], None]) -> Order:
        with self._lock:
            before = self._order()
            self._advance()
            news()
            self._look_for_a_hang()
            self._settle()
            order = self._order()
        if order != before:
            self._changed()
        return order

    def _look_for_a_hang(self) -> None:
        if self._missing or self._sightings or self._cancelled is not None:
            return
        failure = self._hangs.judge(self._clock)
        if failure:
            self._see(failure, self._clock)

    def _be_warned(self) -> None:
        self._warned = True

    def all_informed(self) -> bool:
        """Return whether no node needs the head any longer; silent nodes count after a timeout."""
        with self._lock:
            self._advance()
            return all(
                node.informed or node.gone or node.silent > HEARTBEAT_TIMEOUT_S
                for node in self._nodes
            )

    def _advance(self) -> None:
        self._clock = time.monotonic()
        if self._clock < self._swept + _SHORTEST_STEP:
            return
        step = min(self._clock - self._swept, _LONGEST_STEP)
        self._swept = self._clock
        for number, node in enumerate(self._nodes):
            node.silent += step
            if not node.gone and node.silent > (
                HEARTBEAT_TIMEOUT_S if node.appeared else self._start_timeout
            ):
                node.gone = True
                self._lose(number, node)

    def _lose(self, number: int, node: _Node) -> None:
        if node.ended or self._outcome:
            return
        if node.appeared:
            self._see(vanished(number), node.last_seen)
        else:
            cause = f"its agent never started (waited {self._start_timeout:.0f} s)"
            self._see(Failure(number, None, cause, time.time(), VANISHED), self._clock)

    def _note(self, report: Report) -> None:
        node = self._nodes[report.node]
        self._missing -= not node.appeared
        node.appeared = True
        node.silent = 0.0
        node.last_seen = self._clock
        node.ended |= report.ended
        node.informed |= report.informed
        self._warned |= report.warned
        self._interrupted |= report.interrupted
        if report.cancelled and self._cancelled is None:
            self._cancelled = self._clock
        if report.signalled and self._signalled is None:
            self._signalled = self._clock
        self._finished += [each for each in report.finished if each not in self._finished]
        self._unmeasured = self._unmeasured or report.unmeasured
        self._hangs.note(report, self._clock)
        for failure in report.failures:
            self._see(failure, self._clock)

    def _see(self, failure: Failure, seen: float) -> None:
        if all(failure != each.failure for each in self._sightings):
            self._sightings.append(Sighting(failure, seen))

    def _settle(self) -> None:
        if self._outcome or any(
            node.appeared and not node.ended and not node.gone for node in self._nodes
        ):
            return
        if self._cancelled is not None or self._sightings:
            # Wait for an earlier cause, or for a cancelling signal, that arrives after the failure.
            first = min((each.seen for each in self._sightings), default=0.0)
            patience = WINDOW if self._finished else window(self._sightings)
            if self._cancelled is not None or self._clock >= first + patience:
                self._outcome = judge(
                    self._sightings, self._cancelled, self._signalled, self._finished
                )
        elif all(node.ended for node in self._nodes) and self._interrupted:
            self._outcome = Outcome(INTERRUPTED)
        elif all(node.ended for node in self._nodes):
            failure = self._accept() or self._unmeasured
            self._outcome = Outcome(FAILED if failure else COMPLETED, failure)

    def _order(self) -> Order:
        return Order(
            start=not self._missing and self._ports is not None,
            stop=self._cancelled is not None or ends_the_job(self._sightings, self._clock),
            warn=self._warned,
            failure=root_cause(self._sightings, self._finished) if self._sightings else None,
            outcome=self._outcome,
            look=self._hangs.look,
            ports=self._ports or {},
        )


def judge(
    sightings: Sequence[Sighting],
    cancelled: float | None,
    signalled: float | None = None,
    finished: Sequence[Finished] = (),
) -> Outcome:
    """Return the outcome of a job that was cancelled, failed, or both.

    Signals reach ranks and agents in any order, so a failure just before one is its consequence. If the
    signal left time to save, such a failure means that the job was interrupted.

    Args:
        sightings: the failures.
        cancelled: the monotonic time of the cancellation; None: not cancelled.
        signalled: the monotonic time of a signal that left time to save; None: none came.
        finished: the ranks that ended well.
    """
    first = min((each.seen for each in sightings), default=float("inf"))
    if cancelled is not None and cancelled <= first + WINDOW:
        return Outcome(CANCELLED)
    if (
        signalled is not None
        and signalled <= first + WINDOW
        and may_follow_from_a_signal(sightings)
    ):
        return Outcome(INTERRUPTED)
    return Outcome(FAILED, root_cause(sightings, finished))

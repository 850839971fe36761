"""How nodes find out that they cannot meet, and say who could not reach what.

A head that does not answer may still unpack its image, for minutes. Its status on the shared file system
says that its agent has begun: from then on only the network can be in the way, and `REACH_TIME` counts.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import threading
import time
from typing import Any, Callable, Mapping

from ...contract import layout
from ...contract.files import try_object
from ..settings import Settings, shown_address
from ..status import CANCELLED, FAILED
from .coordinator import Coordinator
from .failure import OTHER, Failure


class StartRecords:
    """The records of one attempt, by the names that docs/run-folder.md gives them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def names(self) -> set[str]:
        """List the files that there are. Listing makes NFS forget what it believed about them."""
        found: set[str] = set()
        for folder in (self._settings.records, self._settings.attempt_dir):
            with contextlib.suppress(OSError):
                found.update(os.listdir(folder))
        return found

    def not_started(self, names: set[str]) -> Failure | None:
        """Return the failure of the node that is known not to start."""
        path = os.path.join(self._settings.attempt_dir, layout.NOT_STARTED)
        return failure_of(try_object(path)) if layout.NOT_STARTED in names else None

    def status(self, node: int, names: set[str]) -> Mapping[str, Any]:
        """Return what the node's agent says of itself; empty before it has begun."""
        name = layout.node_status(node)
        return try_object(self._settings.record(name)) if name in names else {}


def failure_of(record: Mapping[str, Any]) -> Failure | None:
    """Return the failure that a file holds; None when it holds none."""
    try:
        return Failure.from_message({"rank": None, "kind": OTHER, **record})
    except (KeyError, TypeError, ValueError):
        return None


def ended_early(node: int, status: Mapping[str, Any]) -> Failure | None:
    """Return why a node has ended that never reached the head, or was the head; None while it runs."""
    if status.get("state") not in (FAILED, CANCELLED):
        return None
    known = status.get("failure")
    found = failure_of(known) if isinstance(known, dict) else None
    return found or Failure(node, None, f"its agent ended: {status['state']}", time.time(), OTHER)


REACH_TIME = 20.0
"""Seconds in which agents that run have to reach the head."""
_LATE = REACH_TIME + 5.0
_LOOK = 1.0
# The machine itself may be stopped for a while; nobody is to be blamed for that time (seconds).
_LONGEST_STEP = 3.0
_PATIENCE = 5.0  # seconds until the user is told for whom a node waits


class Search:
    """One node's search for the head, from the first attempt to the first answer."""

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        self.start_timeout = settings.start_timeout
        """Seconds in which the head has to answer, whatever it does until then."""
        self._settings = settings
        self._say = say
        self._records = StartRecords(settings)
        self._looked = self._tried = time.monotonic()
        self._waited = self._reachable = 0.0
        self._head: str | None = None
        self._is_here = False
        self._said = False

    def failed(self, error: BaseException) -> Failure | None:
        """Return an attempt came to nothing; returns why there will be no other, if that is so."""
        now = time.monotonic()
        step, self._tried = min(now - self._tried, _LONGEST_STEP), now
        self._waited += step
        if self._head is not None:
            self._reachable += step
        if now >= self._looked + _LOOK:
            self._looked = now
            if known := self._look():
                return known
        if self._waited > _PATIENCE and not self._said:
            self._said = True
            self._say(f"node {self._settings.node} waits for {self._whom()}: {cause_of(error)}")
        if self._is_here or self._reachable > REACH_TIME:
            return self._failure(f"cannot reach {self._whom()}: {self._why(error)}")
        return None

    def late(self, error: BaseException, waited: float) -> Failure:
        """Return the failure of a head that has not come within the time for its start, in seconds."""
        head = "the head (node 0) did not answer for"
        return self._failure(
            f"{head} {waited:.0f} s at {place_of(self._settings)}: {cause_of(error)}"
        )

    def _look(self) -> Failure | None:
        names = self._records.names()
        failure = self._records.not_started(names)
        status = self._records.status(0, names)
        if status and self._head is None:
            self._head = str(status.get("host"))
            # Another machine, with an address that is this machine's as well.
            here = self._head == socket.gethostname()
            self._is_here = not here and is_own(self._settings.head_address)
        return failure or ended_early(0, status)

    def _whom(self) -> str:
        host = f", {self._head}" if self._head else ", which has not begun"
        return f"the head (node 0{host}) at {place_of(self._settings)}"

    def _why(self, error: BaseException) -> str:
        key = f"`interface` (or `host_suffix`) in {self._settings.site_file}"
        if self._is_here:
            return f"{socket.gethostname()} has that address itself; {key} must lead to other nodes"
        if isinstance(error, ConnectionRefusedError):
            return f"{cause_of(error)}, perhaps by a firewall on that interface; {key} names it"
        if isinstance(error, OSError):
            return (
                f"{cause_of(error)}; either {key} names one that does not lead there, "
                "or a firewall is on it"
            )
        return f"{cause_of(error)}; {key} names the interface"

    def _failure(self, cause: str) -> Failure:
        return Failure(self._settings.node, None, cause, time.time(), OTHER)


class Roll(threading.Thread):
    """The head's look at the files of nodes that have not reached it, until all have."""

    def __init__(
        self, settings: Settings, coordinator: Coordinator, say: Callable[[str], None]
    ) -> None:
        super().__init__(name="roll", daemon=True)
        self._settings = settings
        self._coordinator = coordinator
        self._say = say
        self._records = StartRecords(settings)
        self._began = time.monotonic()
        self._seen: dict[int, float] = {}
        self._said = False

    def run(self) -> None:
        """Run the thread."""
        while missing := self._coordinator.missing():
            if failure := self._call(missing):
                self._coordinator.give_up(failure)
                return
            time.sleep(_LOOK)

    def _call(self, missing: list[int]) -> Failure | None:
        if time.monotonic() > self._began + _PATIENCE and not self._said:
            self._said = True
            self._say(f"node 0 waits for the agents of {_some(missing)}")
        names = self._records.names()
        if failure := self._records.not_started(names):
            return failure
        for node in missing:
            if layout.node_status(node) in names and (failure := self._of(node, names)):
                return failure
        return None

    def _of(self, node: int, names: set[str]) -> Failure | None:
        # Most of those that have begun are heard of in a moment.
        waited = self._seen.get(node, 0.0)
        self._seen[node] = waited + _LOOK
        status = self._records.status(node, names) if waited >= 2 * _LOOK else None
        if not status:
            return None
        if failure := ended_early(node, status):
            return failure
        if waited < _LATE:
            return None
        cause = (
            f"its agent runs on {status.get('host')} and has not reached the head at "
            f"{place_of(self._settings)} for {waited:.0f} s; `interface` in "
            f"{self._settings.site_file} names it"
        )
        return Failure(node, None, cause, time.time(), OTHER)


def place_of(settings: Settings) -> str:
    """Return where the head listens, and by which interface nodes are to get there."""
    place = f"{shown_address(settings.head_address)}:{settings.head_port}"
    return f"{place} by interface {settings.interface or 'unknown'}"


def cause_of(error: BaseException) -> str:
    """Return what came of an attempt to connect, in the words of the field."""
    if isinstance(error, socket.timeout):
        return "timed out"
    if isinstance(error, OSError) and error.errno:
        known = {errno.ETIMEDOUT: "timed out", errno.ECONNREFUSED: "connection refused"}
        return known.get(error.errno) or os.strerror(error.errno).lower()
    return str(error) or type(error).__name__


def is_own(address: str) -> bool:
    """Return whether an address is one of this machine's."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def _some(nodes: list[int]) -> str:
    names = ", ".join(str(node) for node in nodes[:8])
    more = f" and {len(nodes) - 8} more" if len(nodes) > 8 else ""
    return f"node{'s' if len(nodes) > 1 else ''} {names}{more}"

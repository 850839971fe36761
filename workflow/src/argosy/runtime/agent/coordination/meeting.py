"""Detects nodes that cannot reach the head, and reports the address and the cause.

A head that does not answer may still unpack its image, for minutes. Once its status file is on the
shared file system, its agent runs: then only the network can fail, and `REACH_TIME` applies.
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
from ..settings import Settings, shown_address
from ..status import CANCELLED, FAILED
from .coordinator import Coordinator
from .failure import OTHER, Failure


def listed(settings: Settings) -> set[str]:
    """List this attempt's files about the start of its nodes. Listing refreshes NFS's cache."""
    found: set[str] = set()
    for folder in (settings.records, settings.files.folder):
        with contextlib.suppress(OSError):
            found.update(os.listdir(folder))
    return found


def not_started(settings: Settings) -> Failure | None:
    """Return the failure of a node that watch_start.py has reported."""
    return Failure.read({"kind": OTHER, **settings.files.read(layout.NOT_STARTED)})


def ended_early(node: int, status: Mapping[str, Any]) -> Failure | None:
    """Return the failure of an ended node that never reached the head, or was the head; else None."""
    if status.get("state") not in (FAILED, CANCELLED):
        return None
    return Failure.read(status.get("failure")) or Failure(
        node, None, f"its agent ended: {status['state']}", time.time(), OTHER
    )


REACH_TIME = 20.0
"""Seconds for a running agent to reach the head."""
_LATE = REACH_TIME + 5.0
_LOOK = 1.0
# Most seconds that one step adds: the machine itself may have been stopped.
_LONGEST_STEP = 3.0
_PATIENCE = 5.0  # seconds until a node prints which node it waits for


class Search:
    """One node's search for the head, from the first attempt to the first answer."""

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        self.start_timeout = settings.start_timeout
        """Seconds for the head to answer, including its start."""
        self._settings = settings
        self._say = say
        self._looked = self._tried = time.monotonic()
        self._waited = self._reachable = 0.0
        self._head: str | None = None
        self._is_here = False
        self._said = False

    def failed(self, error: BaseException) -> Failure | None:
        """Record a failed attempt; return a failure if further attempts are pointless."""
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
        """Return the failure of a head that has not answered for `waited` seconds."""
        head = "the head (node 0) did not answer for"
        return self._failure(
            f"{head} {waited:.0f} s at {place_of(self._settings)}: {cause_of(error)}"
        )

    def _look(self) -> Failure | None:
        listed(self._settings)
        failure = not_started(self._settings)
        status = self._settings.files.status(0)
        if status and self._head is None:
            self._head = str(status.get("host"))
            # The head is another machine, but this machine has the same address.
            here = self._head == socket.gethostname()
            self._is_here = not here and is_own(self._settings.head_address)
        return failure or ended_early(0, status)

    def _whom(self) -> str:
        host = f", {self._head}" if self._head else ", which has not started"
        return f"the head (node 0{host}) at {place_of(self._settings)}"

    def _why(self, error: BaseException) -> str:
        key = f"`interface` (or `host_suffix`) in {self._settings.site_file}"
        if self._is_here:
            return f"{socket.gethostname()} has that address itself; {key} must lead to other nodes"
        if isinstance(error, ConnectionRefusedError):
            return f"{cause_of(error)}; check {key}, and firewalls on that interface"
        if isinstance(error, OSError):
            return (
                f"{cause_of(error)}; {key} may not lead there, or a firewall blocks that interface"
            )
        return f"{cause_of(error)}; check {key}"

    def _failure(self, cause: str) -> Failure:
        return Failure(self._settings.node, None, cause, time.time(), OTHER)


class Roll(threading.Thread):
    """Thread of the head that checks the files of nodes until all have reported."""

    def __init__(
        self, settings: Settings, coordinator: Coordinator, say: Callable[[str], None]
    ) -> None:
        super().__init__(name="roll", daemon=True)
        self._settings = settings
        self._coordinator = coordinator
        self._say = say
        self._began = time.monotonic()
        self._seen: dict[int, float] = {}
        self._said = False

    def run(self) -> None:
        while missing := self._coordinator.missing():
            if failure := self._call(missing):
                self._coordinator.give_up(failure)
                return
            time.sleep(_LOOK)

    def _call(self, missing: list[int]) -> Failure | None:
        if time.monotonic() > self._began + _PATIENCE and not self._said:
            self._said = True
            self._say(f"node 0 waits for the agents of {_some(missing)}")
        names = listed(self._settings)
        if failure := not_started(self._settings):
            return failure
        there = (node for node in missing if layout.node_status(node) in names)
        return next(filter(None, map(self._of, there)), None)

    def _of(self, node: int) -> Failure | None:
        # Most nodes report a moment after their file appears.
        waited = self._seen.get(node, 0.0)
        self._seen[node] = waited + _LOOK
        status = self._settings.files.status(node) if waited >= 2 * _LOOK else None
        if not status:
            return None
        if failure := ended_early(node, status):
            return failure
        if waited < _LATE:
            return None
        cause = (
            f"its agent runs on {status.get('host')} and has not reached the head at "
            f"{place_of(self._settings)} for {waited:.0f} s; check `interface` in "
            f"{self._settings.site_file}"
        )
        return Failure(node, None, cause, time.time(), OTHER)


def place_of(settings: Settings) -> str:
    """Return the head's address, port and interface."""
    place = f"{shown_address(settings.head_address)}:{settings.head_port}"
    return f"{place} by interface {settings.interface or 'unknown'}"


def cause_of(error: BaseException) -> str:
    """Return the cause of a failed connection."""
    if isinstance(error, socket.timeout):
        return "timed out"
    if isinstance(error, OSError) and error.errno:
        known = {errno.ETIMEDOUT: "timed out", errno.ECONNREFUSED: "connection refused"}
        return known.get(error.errno) or os.strerror(error.errno).lower()
    return str(error) or type(error).__name__


def is_own(address: str) -> bool:
    """Return whether this machine has an address."""
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

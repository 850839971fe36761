"""Ends the launcher of a finished job: a crashed node may keep it waiting until the time limit.

Agents end together, since the head sends the outcome to all. But launchers also wait for lost tasks of
a node that crashed and rebooted.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from typing import Sequence

from . import log_words
from .agent.coordination.failure import Failure
from .contract import layout
from .contract.attempt import Attempt
from .node_reports import STATES

INTERVAL = 2.0
"""Seconds between checks."""
LATE = 15.0
"""Seconds for the other agents to end after the first."""
SOON = 2.0
"""The same, and the time from SIGTERM to SIGKILL, if the run continues without the others."""
CLEARING_UP = 600.0
"""Seconds for nodes to clean up, such as unpacked images, after all agents have ended."""
SOON_CLEARED_UP = 60.0
"""The same, if the run continues: a launcher may wait for ever for a lost task."""
KILL_TIME = 10.0
"""Seconds from SIGTERM to SIGKILL."""
VANISHED = "its agent vanished"


def watch_end(
    attempt: Attempt, nodes: int, pids: Sequence[int], *, is_urgent: bool = False
) -> None:
    """Wait for the launcher, whose processes are `pids`; end it if it outlives the job for too long.

    `is_urgent`: whether the run continues without lost nodes.
    """
    turns = itertools.cycle(range(nodes))
    over_since = 0.0
    late = patience = LATE
    clearing_up = SOON_CLEARED_UP if is_urgent else CLEARING_UP
    while any(map(runs, pids)):
        time.sleep(SOON / 4 if is_urgent else INTERVAL)
        # All nodes end together: check two of them each time.
        if not over_since and any(_ended(attempt, node) for node in (0, next(turns))):
            over_since = time.monotonic()
            if not is_urgent:
                patience = LATE + _patience_of_scheduler(attempt, nodes)
            elif any(attempt.status(node).get("state") == "failed" for node in range(nodes)):
                late = patience = SOON
        if over_since and time.monotonic() > over_since + late:
            attempt.list_records()
            lost = [node for node in range(nodes) if not _ended(attempt, node)]
            if time.monotonic() > over_since + (patience if lost else clearing_up):
                _say(attempt, lost, time.monotonic() - over_since)
                end_launcher(pids, SOON if is_urgent else KILL_TIME)
                return


def _ended(attempt: Attempt, node: int) -> bool:
    return attempt.status(node).get("state") in STATES


def _patience_of_scheduler(attempt: Attempt, nodes: int) -> float:
    """Return the seconds in which the scheduler detects a lost node, and requeues the job."""
    for node in range(nodes):
        failure = Failure.read(attempt.status(node).get("failure"))
        if failure is not None:
            is_lost = failure.cause.startswith(VANISHED)
            return log_words.load().misses_node_after() if is_lost else 0.0
    return 0.0


def _say(attempt: Attempt, lost: Sequence[int], waited: float) -> None:
    named = f"node{'s' if len(lost) > 1 else ''} {', '.join(map(str, lost[:8]))}"
    whom = f"{named} stopped responding" if lost else "the nodes have not cleaned up"
    print(
        f"argosy: {whom}, {waited:.0f} s after the end of the job: the launcher is ended",
        flush=True,
    )
    with contextlib.suppress(OSError):
        attempt.write(layout.LOST, {"nodes": list(lost)})


def end_launcher(pids: Sequence[int], kill_time: float = KILL_TIME) -> None:
    """Send SIGTERM to the launcher, and SIGKILL after `kill_time` seconds."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in filter(runs, pids):
            with contextlib.suppress(OSError):
                os.kill(pid, number)
        deadline = time.monotonic() + kill_time
        while any(map(runs, pids)) and time.monotonic() < deadline:
            time.sleep(0.1)


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return not file.read().rpartition(b")")[2].strip().startswith((b"Z", b"X"))
    except OSError:
        # /proc may hide processes (hidepid).
        return True

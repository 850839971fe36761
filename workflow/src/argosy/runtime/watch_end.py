"""End the launcher of a job that is over: a node that crashed may keep it waiting until the time limit.

Agents end together, since the head tells all of them how the job ended. But launchers also wait
for tasks of a node that crashed and came back, of which nobody knows any more.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from typing import Any, Callable, Sequence

from . import log_words
from .contract import files, layout

ENDED = ("completed", "failed", "interrupted", "cancelled")
INTERVAL = 2.0
"""Seconds between two looks."""
LATE = 15.0
"""Seconds after the first agent in which the others end."""
SOON = 2.0
"""The same, and the time from SIGTERM to SIGKILL, where the run goes on without the others."""
CLEARING_UP = 600.0
"""Seconds for nodes to clear up, such as unpacked images, when all agents have ended."""
SOON_CLEARED_UP = 60.0
"""The same: a launcher may wait without end for a task of which it has lost sight."""
KILL_TIME = 10.0
"""Seconds from SIGTERM to SIGKILL."""
VANISHED = "its agent vanished"


def watch_end(
    run_dir: str,
    attempt: str,
    nodes: int,
    pids: Sequence[int],
    runs: Callable[[int], bool],
    *,
    is_urgent: bool = False,
) -> None:
    """Wait for the launcher, whose processes are `pids`; end it when the job has been over for long.

    It is urgent where the run goes on without the nodes that are lost.
    """
    records = os.path.join(run_dir, layout.RECORDS, attempt)
    turns = itertools.cycle(range(nodes))
    over_since = 0.0
    late = patience = LATE
    clearing_up = SOON_CLEARED_UP if is_urgent else CLEARING_UP
    while any(map(runs, pids)):
        time.sleep(SOON / 4 if is_urgent else INTERVAL)
        # One node ends as all do: of a large job two are looked at each time.
        if not over_since and any(_ended(records, node) for node in (0, next(turns))):
            over_since = time.monotonic()
            if not is_urgent:
                patience = LATE + _patience_of_scheduler(records, nodes)
            elif any(_status(records, node).get("state") == "failed" for node in range(nodes)):
                late = patience = SOON
        if over_since and time.monotonic() > over_since + late:
            # Listing a folder makes NFS forget what it believed about the files in it.
            with contextlib.suppress(OSError):
                os.listdir(records)
            lost = [node for node in range(nodes) if not _ended(records, node)]
            if time.monotonic() > over_since + (patience if lost else clearing_up):
                _say(run_dir, attempt, lost, time.monotonic() - over_since)
                end_launcher(pids, runs, SOON if is_urgent else KILL_TIME)
                return


def _status(records: str, node: int) -> dict[str, Any]:
    return files.try_object(os.path.join(records, layout.node_status(node)))


def _ended(records: str, node: int) -> bool:
    return _status(records, node).get("state") in ENDED


def _patience_of_scheduler(records: str, nodes: int) -> float:
    """Return how long the scheduler may take to miss a node, in seconds: it then starts the job again."""
    for node in range(nodes):
        failure = _status(records, node).get("failure")
        cause = failure.get("cause") if isinstance(failure, dict) else None
        if cause is not None:
            return log_words.load().misses_node_after() if str(cause).startswith(VANISHED) else 0.0
    return 0.0


def _say(run_dir: str, attempt: str, lost: Sequence[int], waited: float) -> None:
    named = f"node{'s' if len(lost) > 1 else ''} {', '.join(map(str, lost[:8]))}"
    whom = f"{named} said nothing more" if lost else "the nodes have not cleared up"
    print(
        f"argosy: {whom}, {waited:.0f} s after the end of the job: the launcher is ended",
        flush=True,
    )
    content = {"schema_version": layout.SCHEMA_VERSION, "nodes": list(lost)}
    with contextlib.suppress(OSError):
        files.write_json(os.path.join(run_dir, layout.ATTEMPTS, attempt, layout.LOST), content)


def end_launcher(
    pids: Sequence[int], runs: Callable[[int], bool], kill_time: float = KILL_TIME
) -> None:
    """Ask the launcher to end, and kill it where it does not within `kill_time` seconds."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in filter(runs, pids):
            with contextlib.suppress(OSError):
                os.kill(pid, number)
        deadline = time.monotonic() + kill_time
        while any(map(runs, pids)) and time.monotonic() < deadline:
            time.sleep(0.1)

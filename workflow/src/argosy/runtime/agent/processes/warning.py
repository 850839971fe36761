"""Warns a rank of the job's end: SIGUSR1 to each of its programs with a handler.

The signal ends other processes by default, so shells, torchrun or `timeout` do not get it. Nor do forked
workers: they have inherited the program's handler, and would save or end as well.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

from ..hangs.processes import Process, caught, family

# A shell with a trap for EXIT handles all of these, and ends.
_ENDINGS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU, signal.SIGVTALRM)


class RankWarning:
    """The warning of one rank.

    `heard` is the monotonic time at which a program of the rank first got it, None before; `since` is
    the same in unix time.
    """

    def __init__(self) -> None:
        self.heard: float | None = None
        self.since = 0.0
        self._told: set[int] = set()

    def note(self, since: float) -> None:
        """Record that a program has got the warning at a unix time."""
        if self.heard is None:
            self.heard, self.since = time.monotonic(), since

    def send(self, pid: int, everybody: dict[int, Process]) -> None:
        """Send it to processes that have a handler by now and have not got it yet."""
        for each in listeners(everybody, pid):
            if each not in self._told:
                self._told.add(each)
                self.note(time.time())
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(each, signal.SIGUSR1)


def listeners(everybody: dict[int, Process], pid: int) -> list[int]:
    """Return the pids of a rank that handle the warning, without forked workers."""
    listening = {each.pid: each for each in members(everybody, pid) if _listens(each.pid)}
    return [each.pid for each in listening.values() if not _is_fork(each, listening)]


def members(everybody: dict[int, Process], pid: int) -> list[Process]:
    """Return the processes of a rank, including orphans in its session."""
    found = {each.pid: each for each in family(everybody, pid)}
    for each in everybody.values():
        if each.session == pid and each.pid not in found:
            found.update({one.pid: one for one in family(everybody, each.pid)})
    return [*found.values()]


def _listens(pid: int) -> bool:
    handled = caught(pid)
    return signal.SIGUSR1 in handled and not handled.issuperset(_ENDINGS)


def _is_fork(process: Process, listening: dict[int, Process]) -> bool:
    parent = listening.get(process.parent)
    return parent is not None and parent.stack == process.stack != 0

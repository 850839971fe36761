"""Warn a rank that its job will be ended soon: SIGUSR1 to each of its programs that listens.

By default the signal ends a process, so only processes that handle it get it: no shell, torchrun or
`timeout` around the program, nor what the program starts. Forked workers have the program's handler, and
would save or end as it does: they do not get it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

from ..hangs.processes import Process, caught, family

# A shell with a trap for its exit handles all of these, and ends.
_ENDINGS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU, signal.SIGVTALRM)


class RankWarning:
    """The warning of one rank: who has been sent it, and since when somebody knows.

    `heard` is the time (monotonic) since which a program of the rank knows of it, None before, and `since`
    the same in unix time.
    """

    def __init__(self) -> None:
        self.heard: float | None = None
        self.since = 0.0
        self._told: set[int] = set()

    def note(self, since: float) -> None:
        """Note that a program of the rank knows of it by itself, from a file of that time (unix)."""
        if self.heard is None:
            self.heard, self.since = time.monotonic(), since

    def send(self, pid: int, everybody: dict[int, Process]) -> None:
        """Send it to those that listen by now and have not been sent it yet."""
        for each in listeners(everybody, pid):
            if each not in self._told:
                self._told.add(each)
                self.note(time.time())
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(each, signal.SIGUSR1)


def listeners(everybody: dict[int, Process], pid: int) -> list[int]:
    """Return the processes of a rank that handle the warning, without the forks of others."""
    listening = {each.pid: each for each in members(everybody, pid) if _listens(each.pid)}
    return [each.pid for each in listening.values() if not _is_fork(each, listening)]


def members(everybody: dict[int, Process], pid: int) -> list[Process]:
    """Return the processes of a rank."""
    found = {each.pid: each for each in family(everybody, pid)}
    # Where its parent has ended, a process of the rank is still in its session.
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

"""Duties of a container's first process: reap orphans, and leave no process behind.

The guard is a small process that outlives the agent: if the agent is killed, the guard kills the ranks.
A container does so by itself; native runs need the guard.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Callable, Collection, Mapping

from ..hangs.processes import Process, command_line, processes

_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
_MOMENT = 1.0  # seconds, for busy machines
_LONGEST_NAME = 80


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants (a subreaper), like process 1 of a container."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes  # some small Pythons lack it

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap(collect: Mapping[int, Callable[[], object]]) -> None:
    """Reap all children that have ended.

    Args:
        collect: callbacks that reap a child, by pid; other children are reaped silently.
    """
    while True:
        try:
            # WNOWAIT: the pid is not reused before the child's callback has reaped it.
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if found is None:
            return
        if found.si_pid in collect:
            collect[found.si_pid]()
        else:
            # Another thread may have reaped it.
            with contextlib.suppress(ChildProcessError):
                os.waitpid(found.si_pid, 0)


def children() -> set[int]:
    me = os.getpid()
    return {each.pid for each in processes().values() if each.parent == me}


def end_sessions(sessions: Collection[int]) -> list[str]:
    """Give processes of these sessions a moment to end, then kill them and return their names.

    Python's resource tracker and torch's manager of shared memory ignore signals, and remove the files in
    /dev/shm of a program that has ended.
    """
    deadline = time.monotonic() + _MOMENT
    while left := _alive_in(sessions) if sessions else []:
        if time.monotonic() > deadline:
            names = [_name(each.pid) for each in left]
            for session in {each.session for each in left}:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(session, signal.SIGKILL)
            return names
        time.sleep(0.02)
    return []


def _alive_in(sessions: Collection[int]) -> list[Process]:
    found = processes().values()
    return [each for each in found if each.session in sessions and each.state != "Z"]


def _name(pid: int) -> str:
    return " ".join(command_line(pid)[:2])[:_LONGEST_NAME]


def end_children(spare: Collection[int]) -> list[str]:
    """Kill all remaining descendants except `spare`; return their names."""
    names: list[str] = []
    for _ in range(20):
        left = children().difference(spare)
        if not left:
            break
        names += filter(None, map(_name, left))
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
        reap({})
    return names


class Guard:
    """The agent's handle of the guard: it lists the process groups to kill."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    @classmethod
    def start(cls) -> Guard:
        """Fork the guard; call this before starting threads."""
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.close(writer)
            try:
                _watch(reader)
            finally:
                os._exit(0)
        os.close(reader)
        return cls(writer)

    def add(self, group: int) -> None:
        """Have a process group killed if the agent dies."""
        self._say(f"+{group}\n")

    def remove(self, group: int) -> None:
        """Remove a process group that has ended, since its number may be reused."""
        self._say(f"-{group}\n")

    def _say(self, word: str) -> None:
        # The job goes on without the guard.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._pipe, word.encode())


def _watch(reader: int) -> None:
    # The guard has its own session and no shared descriptors, so no process waits for it. It ignores
    # signals: schedulers signal all processes of a job, and the agent decides how long ranks go on.
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    groups = set()
    with open(reader, encoding="ascii") as words:
        for word in words:
            if word[0] == "+":
                groups.add(int(word[1:]))
            else:
                groups.discard(int(word[1:]))
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)

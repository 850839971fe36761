"""The duties of a first process: reap whatever ends, and leave nothing behind, killed or not.

The guard is a small process that outlives the agent: if the agent is killed, it ends the agent's ranks. A
container ends all of its processes with its first; without one, nothing would.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Callable, Collection, Mapping

from ..hangs.processes import Process, command_line, processes

_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
_MOMENT = 0.3  # seconds
_LONGEST_NAME = 80


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, as process 1 of a container is anyway."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes  # some small Pythons lack it

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap(collect: Mapping[int, Callable[[], object]]) -> None:
    """Take note of all children that have ended.

    Args:
        collect: for a child's pid, what reaps it; any other child is reaped without a word.
    """
    while True:
        try:
            # WNOWAIT: its number stays taken until its own collector has reaped it.
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if found is None:
            return
        if found.si_pid in collect:
            collect[found.si_pid]()
        else:
            os.waitpid(found.si_pid, 0)


def children() -> set[int]:
    """Return the pids of this process's children."""
    me = os.getpid()
    return {each.pid for each in processes().values() if each.parent == me}


def end_sessions(sessions: Collection[int]) -> list[str]:
    """Kill what is left in sessions, after a moment in which it may end by itself; returns its names.

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
    """Kill what the ranks left behind, down to the last descendant; returns its names."""
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
    """The agent's side: says which process groups to end."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    @classmethod
    def start(cls) -> Guard:
        """Fork the guard; to be called before there are threads."""
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
        """End this process group, from now on, when the agent dies."""
        self._say(f"+{group}\n")

    def remove(self, group: int) -> None:
        """Leave this process group alone: it is gone, and its number may be given to another."""
        self._say(f"-{group}\n")

    def _say(self, word: str) -> None:
        # Without its guard a job can still go on.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._pipe, word.encode())


def _watch(reader: int) -> None:
    # A session of its own and no shared descriptors: nobody waits for the guard. Schedulers that warn or
    # cancel signal every process of a job, while the ranks may go on for as long as their agent lets them.
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

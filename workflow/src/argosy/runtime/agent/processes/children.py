"""The duties of a first process: reap whatever ends, and leave nothing behind."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Callable, Collection, Mapping

_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, as process 1 of a container is anyway."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes  # some small Pythons lack it

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap(collect: Mapping[int, Callable[[], None]]) -> None:
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
    return {int(name) for name in os.listdir("/proc") if name.isdigit() and _parent(name) == me}


def end_children(spare: Collection[int]) -> None:
    """Kill what the ranks left behind, down to the last descendant."""
    for _ in range(20):
        left = children().difference(spare)
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
        reap({})


def _parent(pid: str) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name in brackets may itself hold brackets and spaces.
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return None

"""Processes in /proc: their parents, states and counters."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

from ..kernel_files import numbers_in, read_text, status_of

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    """Sample of a process; `cpu_s` and `page_faults` include reaped children."""

    pid: int
    parent: int
    state: str
    cpu_s: float
    page_faults: int
    session: int = 0
    stack: int = 0
    """Address of its stack: random, but the same in a fork until it executes a program; 0: unknown."""

    @property
    def stopped(self) -> bool:
        """Whether it is stopped by a signal or a debugger."""
        return self.state in "Tt"


def processes() -> dict[int, Process]:
    """Return all visible processes, by pid."""
    found = (read_process(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {each.pid: each for each in found if each}


def read_process(pid: int) -> Process | None:
    """Parse /proc/<pid>/stat (proc(5)); None if the process has ended."""
    try:
        fields = _fields(f"/proc/{pid}/stat")
        ticks = sum(int(fields[place]) for place in (11, 12, 13, 14))
        faults = int(fields[7]) + int(fields[8])
        parent, session, stack = int(fields[1]), int(fields[3]), int(fields[25])
        return Process(pid, parent, fields[0], ticks / _TICKS, faults, session, stack)
    except (OSError, IndexError, ValueError):
        return None


def family(all_processes: dict[int, Process], pid: int) -> list[Process]:
    """Return a process and its descendants; empty if it has ended."""
    if pid not in all_processes:
        return []
    found = [all_processes[pid]]
    for each in found:
        found += [child for child in all_processes.values() if child.parent == each.pid]
    return found


def with_children(pid: int) -> list[int]:
    """Return a pid and its descendants by first threads only; cheaper than `processes`."""
    found = [pid]
    for each in found:
        with contextlib.suppress(OSError), open(f"/proc/{each}/task/{each}/children") as file:
            found += map(int, file.read().split())
    return found


def threads(pid: int) -> dict[int, str]:
    """Return the states of a process's threads, such as `R` (runnable) and `D` (waiting for a disk)."""
    found = {}
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/task"):
            found[int(name)] = ""
            with contextlib.suppress(OSError, IndexError):
                found[int(name)] = _fields(f"/proc/{pid}/task/{name}/stat")[0]
    return found


def _fields(path: str) -> list[str]:
    # The name in brackets may contain brackets and spaces.
    return read_text(path).rpartition(")")[2].split()


def wake_ups(pid: int) -> int:
    """Return the voluntary context switches of a process's first thread."""
    return _counters(f"/proc/{pid}/task/{pid}/status", "voluntary_ctxt_switches")


def calls_of_files(pid: int, first_thread: bool) -> int:
    """Return the number of read and write calls of a process, or of its first thread."""
    return _counters(
        f"/proc/{pid}/task/{pid}/io" if first_thread else f"/proc/{pid}/io", "syscr", "syscw"
    )


def command_line(pid: int) -> list[str]:
    """Return the command line of a process; empty if it has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
            return file.read().split("\0")[:-1]
    except OSError:
        return []


def bytes_moved(pid: int) -> int:
    """Return the bytes that a process has read and written, as a sign of progress.

    All I/O of the first thread counts, and disk I/O of the process. Other threads exchange messages even
    while all ranks wait.
    """
    return _counters(f"/proc/{pid}/task/{pid}/io", "rchar", "wchar") + _counters(
        f"/proc/{pid}/io", "read_bytes", "write_bytes"
    )


def caught(pid: int) -> set[int]:
    """Return the signals for which a process has a handler."""
    mask = int(status_of(pid, "SigCgt") or "0", 16)
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}


def _counters(path: str, *names: str) -> int:
    try:
        found = numbers_in(path)
    except OSError:
        return 0
    return sum(found.get(name, 0) for name in names)

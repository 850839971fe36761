"""Busy time of CPUs."""

from __future__ import annotations

import os
import threading
import time
from typing import Collection

from .cgroup import own_group
from .counters import CumulativeCounter
from .reading import UnreadError, read_text

# user, nice, system, irq and softirq of proc(5). What a guest ran is in `user` already; what the
# hypervisor gave to others (steal) is nobody's work here.
_BUSY = (1, 2, 3, 6, 7)
_TICKS = os.sysconf("SC_CLK_TCK")


class NodeCpu:
    """The CPUs that the agent may use, whoever keeps them busy.

    Args:
        cpus: their numbers.
    """

    keys = ("cpu_s", "cpus")

    def __init__(self, cpus: Collection[int], proc: str = "/proc") -> None:
        self._names = {f"cpu{number}" for number in cpus}
        self._path = f"{proc}/stat"
        self._growth = CumulativeCounter()

    def read(self) -> dict[str, float]:
        """Busy seconds of all of them together, and how many they are."""
        ticks = _busy_ticks(read_text(self._path), self._names)
        if not ticks:
            raise UnreadError(f"none of the agent's CPUs is in {self._path}")
        return {"cpu_s": self._growth.add(ticks) / _TICKS, "cpus": len(ticks)}


class JobCpu:
    """The control group of the agent and its ranks, on whichever CPUs they run."""

    keys = ("job_cpu_s",)

    def __init__(self, proc: str = "/proc", sys: str = "/sys") -> None:
        self._roots = proc, sys
        self._path = ""
        self._growth = CumulativeCounter()

    def read(self) -> dict[str, float]:
        """CPU seconds that the group was given."""
        self._path = self._path or f"{own_group(*self._roots)}/cpu.stat"
        for line in read_text(self._path).splitlines():
            name, _, value = line.partition(" ")
            if name == "usage_usec":
                return {"job_cpu_s": self._growth.add({name: int(value)}) / 1e6}
        raise UnreadError(f"no usage_usec in {self._path}")


class OwnCpu:
    """What telemetry itself costs: the threads that take part say so here."""

    keys = ("agent_cpu_s",)

    def __init__(self) -> None:
        self._spent: dict[int, float] = {}

    def note(self) -> None:
        """Take note of the CPU time of the calling thread, since it began."""
        self._spent[threading.get_ident()] = time.thread_time()

    def read(self) -> dict[str, float]:
        """CPU seconds of those threads together; the first sample has what it cost to begin."""
        self.note()
        return {"agent_cpu_s": sum(list(self._spent.values()))}


def _busy_ticks(stat: str, names: Collection[str]) -> dict[str, int]:
    """Busy clock ticks of the named CPUs that are there."""
    ticks = {}
    for line in stat.splitlines():
        if not line.startswith("cpu"):
            break
        fields = line.split()
        if fields[0] in names:
            ticks[fields[0]] = sum(int(fields[place]) for place in _BUSY)
    return ticks

"""Counters of the node, and of the job's control group: CPUs, memory, disks, network and energy.

https://docs.kernel.org/admin-guide/cgroup-v2.html, https://docs.kernel.org/power/powercap/powercap.html
"""

from __future__ import annotations

import glob
import os
import re
import threading
import time
from typing import Any, Collection

from ..kernel_files import groups_of, numbers_in, read_text
from .source import CumulativeCounter, UnreadError


def own_group(proc: str, sys: str) -> str:
    """Return the folder of the control group of this process and its ranks.

    Raises UnreadError if there is none, or if it is the root group.
    """
    if not os.path.exists(f"{sys}/fs/cgroup/cgroup.controllers"):
        raise UnreadError(f"there are no control groups of version 2 at {sys}/fs/cgroup")
    for folder in groups_of(proc, sys):
        return folder
    raise UnreadError("the agent sees no control group of its own")


def _has_limit(folder: str) -> bool:
    try:
        return read_text(f"{folder}/memory.max").strip() != "max"
    except OSError:
        return False


# user, nice, system, irq and softirq of proc(5). `user` includes guests; stolen time is no work.
_BUSY = (0, 1, 2, 5, 6)
_TICKS = os.sysconf("SC_CLK_TCK")


def node_cpu(cpus: Collection[int], proc: str = "/proc") -> dict[str, Any]:
    """Return the busy seconds of the agent's CPUs, for any process, and their number."""
    path = f"{proc}/stat"
    seconds = {}
    for line in read_text(path).splitlines():
        if not line.startswith("cpu"):
            break
        name, *ticks = line.split()
        if name[3:].isdigit() and int(name[3:]) in cpus:
            seconds[name] = sum(int(ticks[place]) for place in _BUSY) / _TICKS
    if not seconds:
        raise UnreadError(f"none of the agent's CPUs is in {path}")
    return {"cpu_s": seconds, "cpus": len(seconds)}


def job_cpu(proc: str = "/proc", sys: str = "/sys") -> dict[str, Any]:
    """Return the CPU seconds of the job's control group, on any CPU."""
    path = f"{own_group(proc, sys)}/cpu.stat"
    used = numbers_in(path).get("usage_usec")
    if used is None:
        raise UnreadError(f"no usage_usec in {path}")
    return {"job_cpu_s": {path: used / 1e6}}


class OwnCpu:
    """CPU time of the telemetry itself, recorded by its threads."""

    def __init__(self) -> None:
        self._spent: dict[int, float] = {}

    def note(self) -> None:
        """Record the CPU time of the calling thread."""
        self._spent[threading.get_ident()] = time.thread_time()

    def read(self) -> dict[str, float]:
        """Return the CPU seconds of all threads, including their start."""
        self.note()
        return {"agent_cpu_s": sum(list(self._spent.values()))}


class Memory:
    """Used memory of the innermost control group with a limit, or else of the node.

    The group is determined once, at the first reading.
    """

    def __init__(self, proc: str = "/proc", sys: str = "/sys") -> None:
        self._proc, self._sys = proc, sys
        self._group: str | None = None
        self._found = False
        self._meminfo = f"{proc}/meminfo"

    @property
    def of(self) -> str:
        """``cgroup`` or ``node``, after the first reading."""
        return "node" if self._group is None else "cgroup"

    def read(self) -> dict[str, float]:
        """Return the used bytes; a control group's include its file cache, a node's do not."""
        if not self._found:
            groups = filter(_has_limit, groups_of(self._proc, self._sys))
            self._group, self._found = next(groups, None), True
        if self._group is not None:
            return {"memory_used_bytes": int(read_text(f"{self._group}/memory.current"))}
        return {"memory_used_bytes": self._used_on_node()}

    def _used_on_node(self) -> int:
        found = numbers_in(self._meminfo)
        if not {"MemTotal", "MemAvailable"} <= found.keys():
            raise UnreadError(f"no MemTotal and MemAvailable in {self._meminfo}")
        return found["MemTotal"] - found["MemAvailable"] << 10


# https://docs.kernel.org/admin-guide/iostats.html: always in these units.
_SECTOR_BYTES = 512
_SECTORS_READ, _SECTORS_WRITTEN = 5, 9
# One path of a multipath NVMe disk, which is listed under its own name as well.
_PATH_OF_DISK = re.compile(r"nvme\d+c\d+n\d+$")


def disk_traffic(proc: str = "/proc", sys: str = "/sys") -> dict[str, Any]:
    """Return bytes read and written of whole disks, not of partitions and stacked devices (dm, loop)."""
    path = f"{proc}/diskstats"
    lines = [line.split() for line in read_text(path).splitlines()]
    disks = [fields for fields in lines if _is_disk(fields[2], sys)]
    if not disks:
        raise UnreadError(f"no disk of this node is in {path}")
    places = {"disk_read_bytes": _SECTORS_READ, "disk_written_bytes": _SECTORS_WRITTEN}
    return {
        name: {fields[2]: int(fields[place]) * _SECTOR_BYTES for fields in disks}
        for name, place in places.items()
    }


def _is_disk(name: str, sys: str) -> bool:
    # Slashes in a disk's name are exclamation marks in sysfs.
    is_device = os.path.exists(f"{sys}/block/{name.replace('/', '!')}/device")
    return is_device and not _PATH_OF_DISK.match(name)


# port_rcv_data and port_xmit_data count 32-bit words:
# https://www.kernel.org/doc/Documentation/ABI/stable/sysfs-class-infiniband
_WORD_BYTES = 4
_ARPHRD_INFINIBAND = "32"  # if_arp(7)


def network_traffic(proc: str = "/proc", sys: str = "/sys") -> dict[str, Any]:
    """Return bytes received and sent by physical interfaces (no bridge or bond) and InfiniBand ports.

    Ports count IP over InfiniBand as well, so such interfaces are skipped.
    """
    # /proc/net belongs to this process's network namespace.
    path = f"{proc}/net/dev"
    ports = glob.glob(f"{sys}/class/infiniband/*/ports/*/counters")
    received = {port: int(read_text(f"{port}/port_rcv_data")) * _WORD_BYTES for port in ports}
    sent = {port: int(read_text(f"{port}/port_xmit_data")) * _WORD_BYTES for port in ports}
    for line in read_text(path).splitlines():
        name, colon, counters = line.partition(":")
        folder = f"{sys}/class/net/{name.strip()}"
        if not colon or not os.path.exists(f"{folder}/device"):
            continue
        if not ports or read_text(f"{folder}/type").strip() != _ARPHRD_INFINIBAND:
            fields = counters.split()
            received[folder], sent[folder] = int(fields[0]), int(fields[8])
    if not received:
        raise UnreadError(f"no interface in {path} has a device, and there is no InfiniBand")
    return {"network_received_bytes": received, "network_sent_bytes": sent}


class CpuEnergy:
    """Energy of all processor packages, including cores but not memory or board."""

    def __init__(self, sys: str = "/sys") -> None:
        self._zones = f"{sys}/class/powercap/intel-rapl:*"
        self._packages: list[str] = []
        self._growth = CumulativeCounter()

    def read(self) -> dict[str, float]:
        """Return joules; on most kernels only root can read them."""
        if not self._packages:
            self._find()
        counters = {zone: int(read_text(f"{zone}/energy_uj")) for zone in self._packages}
        return {"cpu_energy_j": self._growth.add(counters) / 1e6}

    def _find(self) -> None:
        zones = sorted(glob.glob(self._zones))
        packages = [zone for zone in zones if read_text(f"{zone}/name").startswith("package")]
        if not packages:
            raise UnreadError(f"the kernel reports no processor energy: {self._zones}")
        ranges = {zone: int(read_text(f"{zone}/max_energy_range_uj")) for zone in packages}
        self._packages, self._growth = packages, CumulativeCounter(ranges)

"""Counters of the node, and of the job's control group: CPUs, memory, disks, network and energy.

https://docs.kernel.org/admin-guide/cgroup-v2.html, https://docs.kernel.org/power/powercap/powercap.html
"""

from __future__ import annotations

import glob
import os
import re
import threading
import time
from typing import Collection, Iterator

from ..control_groups import groups_of
from .source import CumulativeCounter, UnreadError, read_text


def own_group(proc: str, sys: str) -> str:
    """Return the folder of the control group of this process and its ranks.

    Raises UnreadError if there is none, or if it is the root group.
    """
    root = group_root(sys)
    if not os.path.exists(f"{root}/cgroup.controllers"):
        raise UnreadError(f"there are no control groups of version 2 at {root}")
    for folder in groups_of(proc, root):
        return folder
    raise UnreadError("the agent sees no control group of its own")


def group_root(sys: str) -> str:
    """Return the mount point of control groups."""
    return os.path.normpath(f"{sys}/fs/cgroup")


def _has_limit(folder: str) -> bool:
    try:
        return read_text(f"{folder}/memory.max").strip() != "max"
    except OSError:
        return False


# user, nice, system, irq and softirq of proc(5). `user` includes guests; stolen time is no work.
_BUSY = (1, 2, 3, 6, 7)
_TICKS = os.sysconf("SC_CLK_TCK")


class NodeCpu:
    """CPU time of the agent's CPUs, used by any process."""

    keys = ("cpu_s", "cpus")

    def __init__(self, cpus: Collection[int], proc: str = "/proc") -> None:
        self._names = {f"cpu{number}" for number in cpus}
        self._path = f"{proc}/stat"
        self._growth = CumulativeCounter()

    def read(self) -> dict[str, float]:
        """Return the busy seconds of all CPUs, and their number."""
        ticks = _busy_ticks(read_text(self._path), self._names)
        if not ticks:
            raise UnreadError(f"none of the agent's CPUs is in {self._path}")
        return {"cpu_s": self._growth.add(ticks) / _TICKS, "cpus": len(ticks)}


class JobCpu:
    """CPU time of the job's control group, on any CPU."""

    keys = ("job_cpu_s",)

    def __init__(self, proc: str = "/proc", sys: str = "/sys") -> None:
        self._roots = proc, sys
        self._path = ""
        self._growth = CumulativeCounter()

    def read(self) -> dict[str, float]:
        """Return the group's CPU seconds."""
        self._path = self._path or f"{own_group(*self._roots)}/cpu.stat"
        for line in read_text(self._path).splitlines():
            name, _, value = line.partition(" ")
            if name == "usage_usec":
                return {"job_cpu_s": self._growth.add({name: int(value)}) / 1e6}
        raise UnreadError(f"no usage_usec in {self._path}")


class OwnCpu:
    """CPU time of the telemetry itself, recorded by its threads."""

    keys = ("agent_cpu_s",)

    def __init__(self) -> None:
        self._spent: dict[int, float] = {}

    def note(self) -> None:
        """Record the CPU time of the calling thread."""
        self._spent[threading.get_ident()] = time.thread_time()

    def read(self) -> dict[str, float]:
        """Return the CPU seconds of all threads, including their start."""
        self.note()
        return {"agent_cpu_s": sum(list(self._spent.values()))}


def _busy_ticks(stat: str, names: Collection[str]) -> dict[str, int]:
    """Parse the busy clock ticks of the named CPUs."""
    ticks = {}
    for line in stat.splitlines():
        if not line.startswith("cpu"):
            break
        fields = line.split()
        if fields[0] in names:
            ticks[fields[0]] = sum(int(fields[place]) for place in _BUSY)
    return ticks


class Memory:
    """Used memory of the innermost control group with a limit, or else of the node.

    The group is determined once, at the first reading.
    """

    keys = ("memory_used_bytes",)

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
            groups = filter(_has_limit, groups_of(self._proc, group_root(self._sys)))
            self._group, self._found = next(groups, None), True
        if self._group is not None:
            return {"memory_used_bytes": int(read_text(f"{self._group}/memory.current"))}
        return {"memory_used_bytes": self._used_on_node()}

    def _used_on_node(self) -> int:
        found = {}
        for line in read_text(self._meminfo).splitlines():
            name, _, value = line.partition(":")
            if name in ("MemTotal", "MemAvailable"):
                found[name] = int(value.split()[0]) << 10
        if len(found) < 2:
            raise UnreadError(f"no MemTotal and MemAvailable in {self._meminfo}")
        return found["MemTotal"] - found["MemAvailable"]


# https://docs.kernel.org/admin-guide/iostats.html: always in these units.
_SECTOR_BYTES = 512
_SECTORS_READ, _SECTORS_WRITTEN = 5, 9
# One path of a multipath NVMe disk, which is listed under its own name as well.
_PATH_OF_DISK = re.compile(r"nvme\d+c\d+n\d+$")


class Disk:
    """Traffic of whole disks, without partitions and stacked devices (loop, dm, md, zram)."""

    keys = ("disk_read_bytes", "disk_written_bytes")

    def __init__(self, proc: str = "/proc", sys: str = "/sys") -> None:
        self._path = f"{proc}/diskstats"
        self._sys = sys
        self._read, self._written = CumulativeCounter(), CumulativeCounter()

    def read(self) -> dict[str, float]:
        """Return bytes read and written."""
        lines = [line.split() for line in read_text(self._path).splitlines()]
        disks = [fields for fields in lines if self._is_disk(fields[2])]
        if not disks:
            raise UnreadError(f"no disk of this node is in {self._path}")
        return {
            "disk_read_bytes": self._read.add(_bytes(disks, _SECTORS_READ)),
            "disk_written_bytes": self._written.add(_bytes(disks, _SECTORS_WRITTEN)),
        }

    def _is_disk(self, name: str) -> bool:
        if _PATH_OF_DISK.match(name):
            return False
        # Slashes in a disk's name are exclamation marks in sysfs.
        return os.path.exists(f"{self._sys}/block/{name.replace('/', '!')}/device")


def _bytes(disks: list[list[str]], place: int) -> dict[str, int]:
    return {fields[2]: int(fields[place]) * _SECTOR_BYTES for fields in disks}


# port_rcv_data and port_xmit_data count 32-bit words:
# https://www.kernel.org/doc/Documentation/ABI/stable/sysfs-class-infiniband
_WORD_BYTES = 4
_ARPHRD_INFINIBAND = "32"  # if_arp(7)


class Network:
    """Traffic of physical interfaces (no loopback, bridge or bond) and of InfiniBand ports.

    Ports count IP over InfiniBand as well, so such interfaces are skipped.
    """

    keys = ("network_received_bytes", "network_sent_bytes")

    def __init__(self, proc: str = "/proc", sys: str = "/sys") -> None:
        # /proc/net belongs to this process's network namespace.
        self._path = f"{proc}/net/dev"
        self._sys = sys
        self._ports: list[str] | None = None
        self._received, self._sent = CumulativeCounter(), CumulativeCounter()

    def read(self) -> dict[str, float]:
        """Return bytes received and sent."""
        if self._ports is None:
            self._ports = glob.glob(f"{self._sys}/class/infiniband/*/ports/*/counters")
        traffic = {**dict(self._interfaces()), **dict(self._port_traffic())}
        if not traffic:
            raise UnreadError(
                f"no interface in {self._path} has a device, and there is no InfiniBand"
            )
        return {
            "network_received_bytes": self._received.add({k: v[0] for k, v in traffic.items()}),
            "network_sent_bytes": self._sent.add({k: v[1] for k, v in traffic.items()}),
        }

    def _interfaces(self) -> Iterator[tuple[str, tuple[int, int]]]:
        for line in read_text(self._path).splitlines():
            name, colon, counters = line.partition(":")
            if colon and self._counts(name.strip()):
                fields = counters.split()
                yield name.strip(), (int(fields[0]), int(fields[8]))

    def _counts(self, interface: str) -> bool:
        folder = f"{self._sys}/class/net/{interface}"
        if not os.path.exists(f"{folder}/device"):
            return False
        return not self._ports or read_text(f"{folder}/type").strip() != _ARPHRD_INFINIBAND

    def _port_traffic(self) -> Iterator[tuple[str, tuple[int, int]]]:
        for port in self._ports or ():
            received = int(read_text(f"{port}/port_rcv_data")) * _WORD_BYTES
            yield port, (received, int(read_text(f"{port}/port_xmit_data")) * _WORD_BYTES)


class CpuEnergy:
    """Energy of all processor packages, including cores but not memory or board."""

    keys = ("cpu_energy_j",)

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

"""Bytes that the node's own disks read and wrote, whoever asked for them."""

from __future__ import annotations

import os
import re

from .counters import CumulativeCounter
from .reading import UnreadError, read_text

# https://docs.kernel.org/admin-guide/iostats.html: always in these units.
_SECTOR_BYTES = 512
_SECTORS_READ, _SECTORS_WRITTEN = 5, 9
# One way of several to an NVMe disk, which has a name of its own for all of them.
_PATH_OF_DISK = re.compile(r"nvme\d+c\d+n\d+$")


class Disk:
    """Whole disks: no partitions, and nothing that lies on other disks (loop, dm, md, zram)."""

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
        # Slashes of a disk's name are exclamation marks in sysfs.
        return os.path.exists(f"{self._sys}/block/{name.replace('/', '!')}/device")


def _bytes(disks: list[list[str]], place: int) -> dict[str, int]:
    return {fields[2]: int(fields[place]) * _SECTOR_BYTES for fields in disks}

"""Energy of the node's processors, from the counters that Intel calls RAPL; AMD has them, too.

https://docs.kernel.org/power/powercap/powercap.html
"""

from __future__ import annotations

import glob

from .counters import CumulativeCounter
from .reading import UnreadError, read_text


class CpuEnergy:
    """All packages together. Their cores are part of them; memory, and the whole board, are not."""

    keys = ("cpu_energy_j",)

    def __init__(self, sys: str = "/sys") -> None:
        self._zones = f"{sys}/class/powercap/intel-rapl:*"
        self._packages: list[str] = []
        self._growth = CumulativeCounter()

    def read(self) -> dict[str, float]:
        """Joules. Most kernels let only root read them."""
        if not self._packages:
            self._find()
        counters = {zone: int(read_text(f"{zone}/energy_uj")) for zone in self._packages}
        return {"cpu_energy_j": self._growth.add(counters) / 1e6}

    def _find(self) -> None:
        zones = sorted(glob.glob(self._zones))
        packages = [zone for zone in zones if read_text(f"{zone}/name").startswith("package")]
        if not packages:
            raise UnreadError(f"the kernel shows no energy of processors: {self._zones}")
        ranges = {zone: int(read_text(f"{zone}/max_energy_range_uj")) for zone in packages}
        self._packages, self._growth = packages, CumulativeCounter(ranges)

"""Bytes that went over the node's own network devices, whoever sent them."""

from __future__ import annotations

import glob
import os
from typing import Iterator

from .counters import CumulativeCounter
from .reading import UnreadError, read_text

# port_rcv_data and port_xmit_data count 32-bit words:
# https://www.kernel.org/doc/Documentation/ABI/stable/sysfs-class-infiniband
_WORD_BYTES = 4
_ARPHRD_INFINIBAND = "32"  # if_arp(7)


class Network:
    """Interfaces that have a device, so no loopback, bridge or bond, and ports of InfiniBand.

    What a port counts comprises IP over InfiniBand, so such interfaces do not count beside it.
    """

    keys = ("network_received_bytes", "network_sent_bytes")

    def __init__(self, proc: str = "/proc", sys: str = "/sys") -> None:
        # Of this process's own network namespace, as /proc/net is.
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

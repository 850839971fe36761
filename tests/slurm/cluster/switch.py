"""Program: takes the place of the fast network's bridge, with links that have a delay and a rate.

`switch.py FOLDER DELAY_S BYTES_PER_S`: a node's frame has left its cable when all before it have, and
its own bytes have gone out at BYTES_PER_S; it is at the other node DELAY_S later. However many wait, none
is dropped. It says `ready`, and ends with its standard input. Not every kernel has netem.
"""

import heapq
import select
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cluster.network import without_fast_bridge
from cluster.programs import module_arguments
from cluster.settings import Settings

MODULE = "cluster.switch"

# <linux/if_packet.h>. With a header for each frame the kernel hands over large ones whole, as a network
# card would get them, and leaves their checksums undone.
_SOL_PACKET = 263
_VNET_HEADER = 15
_IGNORE_OUTGOING = 23
_ALL_PROTOCOLS = 3
_HEADER_BYTES = 10
_LARGEST_FRAME = 70_000
_BUFFER_BYTES = 1 << 23
_GROUP_BIT = 1


@dataclass(order=True)
class _Frame:
    """What arrives at `port` at `due_s`; frames of the same time stay in order."""

    due_s: float
    place: int
    port: int = field(compare=False)
    content: bytes = field(compare=False)


class _Switch:
    def __init__(self, delay_s: float, bytes_per_s: float, names: Sequence[str]) -> None:
        self._delay_s = delay_s
        self._bytes_per_s = bytes_per_s
        self._ports = [_port(name) for name in names]
        self._free_s = [0.0] * len(names)
        self._behind: dict[bytes, int] = {}
        self._on_the_way: list[_Frame] = []
        self._count = 0

    def run(self, owner: int) -> None:
        """Pass frames until `owner` is closed."""
        waiting = [owner, *self._ports]
        while True:
            readable, _, _ = select.select(waiting, [], [], self._deliver())
            if owner in readable:
                return
            for number, port in enumerate(self._ports):
                if port in readable:
                    self._take(number)

    def _take(self, number: int) -> None:
        content = self._ports[number].recv(_LARGEST_FRAME)
        target, source = content[_HEADER_BYTES:][:6], content[_HEADER_BYTES:][6:12]
        self._behind[source] = number
        size = len(content) - _HEADER_BYTES
        self._free_s[number] = (
            max(self._free_s[number], time.monotonic()) + size / self._bytes_per_s
        )
        for port in self._ways(target, number):
            self._count += 1
            due_s = self._free_s[number] + self._delay_s
            heapq.heappush(self._on_the_way, _Frame(due_s, self._count, port, content))

    def _ways(self, target: bytes, number: int) -> list[int]:
        if not target[0] & _GROUP_BIT and target in self._behind:
            return [self._behind[target]]
        return [port for port in range(len(self._ports)) if port != number]

    def _deliver(self) -> float | None:
        """Deliver what has arrived; how long until the next does, None when nothing is on the way."""
        while self._on_the_way:
            left_s = self._on_the_way[0].due_s - time.monotonic()
            if left_s > 0:
                return left_s
            frame = heapq.heappop(self._on_the_way)
            self._ports[frame.port].send(frame.content)
        return None


def _port(name: str) -> socket.socket:
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    port.setsockopt(_SOL_PACKET, _VNET_HEADER, 1)
    port.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        port.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
    port.bind((name, _ALL_PROTOCOLS))
    return port


def main(folder: Path, delay_s: float, bytes_per_s: float) -> None:
    """Run the switch; the bridge is back when it ends."""
    with without_fast_bridge(Settings.read(folder).nodes) as names:
        switch = _Switch(delay_s, bytes_per_s, names)
        print("ready", flush=True)
        switch.run(sys.stdin.fileno())


if __name__ == "__main__":
    where, delay, rate = module_arguments()
    main(Path(where), float(delay), float(rate))

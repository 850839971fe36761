"""TCP connections of processes, from /proc (proc_pid_net(5), proc_pid_fd(5))."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Iterable, Iterator

LISTEN = 10


@dataclass(frozen=True)
class Connection:
    """A TCP socket; endpoints are `ADDRESS:PORT`, `queued` the bytes in its send and receive queues."""

    local: str
    remote: str
    state: int
    inode: int
    queued: tuple[int, int]
    uid: int


def connections(pid: int) -> list[Connection]:
    """Return all TCP sockets in a process's network namespace; none if it has ended."""
    found: list[Connection] = []
    for name in ("tcp", "tcp6"):
        path = f"/proc/{pid}/net/{name}"
        with contextlib.suppress(OSError), open(path, encoding="ascii") as file:
            found += connections_in(file)
    return found


def connections_in(table: Iterable[str]) -> Iterator[Connection]:
    """Parse a table of sockets, skipping its header."""
    for line in table:
        fields = line.split()
        with contextlib.suppress(ValueError, IndexError):
            out, _, into = fields[4].partition(":")
            yield Connection(
                local=_endpoint(fields[1]),
                remote=_endpoint(fields[2]),
                state=int(fields[3], 16),
                inode=int(fields[9]),
                queued=(int(out, 16), int(into, 16)),
                uid=int(fields[7]),
            )


def sockets_of(pids: Iterable[int]) -> set[int]:
    """Return the inodes of the processes' open sockets. Raises PermissionError."""
    found = set()
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    target = os.readlink(f"/proc/{pid}/fd/{name}")
                    if target.startswith("socket:["):
                        found.add(int(target[8:-1]))
    return found


@lru_cache(maxsize=4096)
def _endpoint(text: str) -> str:
    """Convert the kernel's `0100000A:0050` to `10.0.0.1:80`; mapped IPv6 addresses become IPv4."""
    address, _, port = text.partition(":")
    words = [int(address[n : n + 8], 16) for n in range(0, len(address), 8)]
    packed = b"".join(struct.pack("=I", word) for word in words)
    if len(packed) == 16 and packed[:12] == bytes(10) + b"\xff\xff":
        packed = packed[12:]
    family = socket.AF_INET if len(packed) == 4 else socket.AF_INET6
    return f"{socket.inet_ntop(family, packed)}:{int(port, 16)}"

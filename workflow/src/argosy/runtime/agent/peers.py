"""Who is at the other end of a connection: another node, or which user of this one."""

from __future__ import annotations

import ipaddress
import os
import struct
from typing import Iterable, Tuple

Endpoint = Tuple[str, int]


def plain_address(text: str) -> str:
    """An address in its usual spelling: no scope, and IPv4 as IPv4 even on an IPv6 socket."""
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def is_loopback(address: str) -> bool:
    """Whether a plain address is one that only this machine itself can use."""
    return ipaddress.ip_address(address).is_loopback


def admitted(peer: Endpoint, server: Endpoint, node_addresses: Iterable[str]) -> bool:
    """Whether to answer: the peer is on one of the job's nodes, and if on this one, it is ours.

    Other users of this machine reach the port as well as we do, so a connection from the machine
    itself has to belong to our own user. Seen from another node, users cannot be told apart.
    """
    address = plain_address(peer[0])
    owner = socket_owner((address, peer[1]), (plain_address(server[0]), server[1]))
    if owner is not None:
        return owner == os.getuid()
    if address == plain_address(server[0]) or is_loopback(address):
        return False
    return address in node_addresses


def socket_owner(local: Endpoint, remote: Endpoint) -> int | None:
    """The uid of the process on this machine whose socket goes from `local` to `remote`.

    The uid is seen through our own user namespace (proc(5), /proc/net/tcp). None: no such socket.
    """
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(path, encoding="ascii") as file:
                owner = find_owner(file, local, remote)
        except OSError:
            continue
        if owner is not None:
            return owner
    return None


def find_owner(table: Iterable[str], local: Endpoint, remote: Endpoint) -> int | None:
    """`socket_owner` in one table in the format of /proc/net/tcp."""
    ports = (f":{local[1]:04X}", f":{remote[1]:04X}")
    for line in table:
        columns = line.split()
        if len(columns) < 8 or not columns[1].endswith(ports[0]):
            continue
        if columns[2].endswith(ports[1]) and _endpoints(columns) == (local, remote):
            return int(columns[7])
    return None


def _endpoints(columns: list[str]) -> tuple[Endpoint, Endpoint]:
    return _endpoint(columns[1]), _endpoint(columns[2])


def _endpoint(text: str) -> Endpoint:
    address, _, port = text.partition(":")
    # The kernel prints each 32-bit word of the address in the machine's own byte order.
    words = [int(address[i : i + 8], 16) for i in range(0, len(address), 8)]
    packed = struct.pack(f"={len(words)}I", *words)
    return plain_address(str(ipaddress.ip_address(packed))), int(port, 16)

"""Finds the user at the other end of a connection within this machine."""

from __future__ import annotations

import errno
import functools
import ipaddress
import os
import socket
import struct
from typing import Iterable, Tuple

from ..sockets import Connection, connections

Endpoint = Tuple[str, int]

# linux/netlink.h, linux/sock_diag.h and linux/inet_diag.h
_NETLINK = struct.Struct("=IHHII")
_NETLINK_SOCK_DIAG, _BY_FAMILY, _REQUEST, _ERROR = 4, 20, 1, 2
_ALL_STATES = 0xFFFFFFFF
_ANY_INTERFACE_AND_COOKIE = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
_UID_PLACE = 4 + 48 + 12


@functools.lru_cache(maxsize=1024)
def plain_address(text: str) -> str:
    """Normalize an address: without scope, and mapped IPv4 addresses as IPv4."""
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


class Owners:
    """Finds the users of connecting processes. For one thread."""

    def __init__(self) -> None:
        self._kernel: socket.socket | None = None

    def is_ours(self, peer: Endpoint, server: Endpoint) -> bool | None:
        """Return whether the peer is a process of this user; None: it is not on this machine."""
        owner = self.owner(peer, server)
        # The kernel reports the owner of our end as well: below proot, getuid() returns root.
        return None if owner is None else owner in (os.getuid(), self.owner(server, peer))

    def owner(self, local: Endpoint, remote: Endpoint) -> int | None:
        """Return the uid of the socket on this machine from `local` to `remote`; None without one.

        The uid is the one in this process's user namespace.
        """
        local, remote = ((plain_address(address), port) for address, port in (local, remote))
        try:
            return self._ask_kernel(local, remote)
        except OSError:
            self._kernel = None
            return find_owner(connections(os.getpid()), local, remote)

    def _ask_kernel(self, local: Endpoint, remote: Endpoint) -> int | None:
        # sock_diag(7): reading the tables in /proc takes longer with each connection of the machine, and
        # each request of a rank is a connection.
        if not self._kernel:
            self._kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG)
            self._kernel.settimeout(1.0)
        self._kernel.sendto(_question(local, remote), (0, 0))
        return _owner_in(self._kernel.recv(1 << 12))


def _question(local: Endpoint, remote: Endpoint) -> bytes:
    family = socket.AF_INET6 if ":" in local[0] else socket.AF_INET
    ends = [socket.inet_pton(family, address) for address, _ in (local, remote)]
    identity = struct.pack("!HH16s16s", local[1], remote[1], *ends) + _ANY_INTERFACE_AND_COOKIE
    query = struct.pack("=BBxxI", family, socket.IPPROTO_TCP, _ALL_STATES) + identity
    return _NETLINK.pack(_NETLINK.size + len(query), _BY_FAMILY, _REQUEST, 1, 0) + query


def _owner_in(answer: bytes) -> int | None:
    _, kind, _, _, _ = _NETLINK.unpack_from(answer)
    if kind == _ERROR:
        number = -struct.unpack_from("=i", answer, _NETLINK.size)[0]
        if number == errno.ENOENT:
            return None
        raise OSError(number, os.strerror(number))
    uid, inode = struct.unpack_from("=II", answer, _NETLINK.size + _UID_PLACE)
    # A closed socket has no inode, and the uid of root.
    return int(uid) if inode else None


def find_owner(table: Iterable[Connection], local: Endpoint, remote: Endpoint) -> int | None:
    """Return the same as `Owners.owner`, from the table in /proc/net/tcp."""
    ends = tuple(f"{address}:{port}" for address, port in (local, remote))
    found = next((each for each in table if (each.local, each.remote) == ends), None)
    return found.uid if found and found.inode else None

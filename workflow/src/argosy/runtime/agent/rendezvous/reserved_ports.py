"""Ports reserved for the program, such as torch's `master_port`, or one per rank."""

from __future__ import annotations

import os
import socket
import time
from typing import Callable

from ..transport.peers import Endpoint, Owners

PAUSE_S = 0.1


def watch_listener(place: Endpoint, own: Endpoint, trouble: Callable[[str], None]) -> None:
    """Wait until a process listens on a reserved port, and check its owner.

    A reservation does not keep another user of the machine from listening first. Ranks of other nodes
    would connect to that user, so this ends the job.

    Args:
        place: the address and port on which the program will listen.
        own: an address and port on which this agent listens.
        trouble: called with the cause.
    """
    owners = Owners()
    while (owner := owners.owner(place, (place[0], 0))) is None:
        time.sleep(PAUSE_S)
    # The kernel reports our own uid as well: below proot, getuid() returns root.
    if owner not in (os.getuid(), owners.owner(own, (own[0], 0))):
        trouble(
            f"another user of this machine (id {owner}) listens at port {place[1]}, which is "
            "reserved for the program: run it again"
        )


def reserve_port() -> socket.socket:
    """Reserve a free port for the program while the returned socket is open. Raises OSError.

    The socket is bound with SO_REUSEADDR, and SO_REUSEPORT as gRPC, but does not listen. So another
    socket with one of these options, such as TCPStore's, can bind the port and listen. Linux does not
    choose the port for others, so the reservation need not be released at the right moment.
    """
    return _bound(socket.SO_REUSEADDR, socket.SO_REUSEPORT)


def listen_alone() -> socket.socket:
    """Listen on a free port that nobody else can bind. Raises OSError."""
    # With SO_REUSEADDR, which `socket.create_server` sets, another user could listen first.
    found = _bound()
    found.listen(socket.SOMAXCONN)
    return found


def _bound(*options: int) -> socket.socket:
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        for option in options:
            found.setsockopt(socket.SOL_SOCKET, option, 1)
        if family == socket.AF_INET6:
            # Rank 0 listens on all addresses of the node, including IPv4.
            found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        found.bind(("", 0))
    except OSError:
        found.close()
        raise
    return found

"""Ports that are kept for a program: that of torch's rank 0, or one of each rank."""

from __future__ import annotations

import os
import socket
import threading
from typing import Callable

from ..transport.peers import Endpoint, Owners

PAUSE_S = 0.1


class ListenerWatch(threading.Thread):
    """Looks whose process listens at a port of the head, until it is one of ours.

    Who has a port reserved as here cannot keep another user of the machine from listening there first:
    the ranks of other nodes would meet that one. So it ends the job.

    Args:
        place: the address and port at which the program will listen.
        own: an address and port of this machine at which we listen ourselves.
        trouble: is told the cause.
    """

    def __init__(self, place: Endpoint, own: Endpoint, trouble: Callable[[str], None]) -> None:
        super().__init__(name="master port", daemon=True)
        self._place = place
        self._own = own
        self._trouble = trouble
        self._owners = Owners()

    def run(self) -> None:
        """Run the thread."""
        while (owner := self._listener(self._place)) is None:
            threading.Event().wait(PAUSE_S)
        # The kernel says who we are: below proot we take ourselves for root.
        if owner not in (os.getuid(), self._listener(self._own)):
            self._trouble(
                f"another user of this machine (id {owner}) listens at port {self._place[1]}, where "
                "the program was to listen: run it again"
            )

    def _listener(self, place: Endpoint) -> int | None:
        return self._owners.owner(place, (place[0], 0))


def reserve_port() -> socket.socket:
    """Keep a free port for the program, for as long as the socket that is returned is open.

    It is bound and does not listen, and has SO_REUSEADDR, and SO_REUSEPORT as gRPC. Linux then lets another
    socket with one of these options
    bind the same port and listen there, as that of torch's TCPStore does, but gives the port to nobody who
    asks for any free one or connects to somewhere. So nothing has to be released in the right moment.

    Raises:
        OSError: no port is free.
    """
    return _bound(socket.SO_REUSEADDR, socket.SO_REUSEPORT)


def listen_alone() -> socket.socket:
    """Listen at a free port, which nobody else can bind at any moment. Raises OSError."""
    # With SO_REUSEADDR, which `socket.create_server` sets, another user could come in between.
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
            # Rank 0 listens at all of the node's addresses, those of IPv4 as well.
            found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        found.bind(("", 0))
    except OSError:
        found.close()
        raise
    return found

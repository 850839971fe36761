"""The port at which rank 0 listens by itself, for launchers whose ranks meet there (torch.distributed)."""

from __future__ import annotations

import socket


def reserve_port() -> socket.socket:
    """Keep a free port for rank 0, for as long as the socket that is returned is open.

    It is bound and does not listen, and has SO_REUSEADDR. Linux then lets another socket with that option
    bind the same port and listen there, as that of torch's TCPStore does, but gives the port to nobody who
    asks for any free one or connects to somewhere. So nothing has to be released in the right moment.

    Raises:
        OSError: no port is free.
    """
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    reserved = socket.socket(family, socket.SOCK_STREAM)
    try:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # Rank 0 listens at all of the node's addresses, those of IPv4 as well.
            reserved.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        reserved.bind(("", 0))
    except OSError:
        reserved.close()
        raise
    return reserved

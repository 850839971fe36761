"""Print this node's address in the job's network: ``python3 find_address.py NODES INTERFACE [SUFFIX]``.

With a SUFFIX, the address belongs to this node's name with the suffix: some sites name their fast
network so, and interfaces differ from node to node. NODES is the job's number of nodes: with several, a
loopback address is refused.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
from typing import Sequence

if not __package__:  # started by its path
    import started_by_path

    __package__ = started_by_path.PACKAGE

from . import printing
from .node_look import address_of


def main(arguments: Sequence[str]) -> int:
    """Print the address; return 2 if there is none."""
    if len(arguments) not in (2, 3) or not arguments[0].isdigit():
        printing.complain("usage: find_address.py NODES INTERFACE [SUFFIX]")
        return 2
    nodes, interface, suffix = (*arguments, "")[:3]
    try:
        address = address_of_name(suffix) if suffix else address_of_interface(interface)
        check_reach(address, int(nodes), "host_suffix" if suffix else "interface")
    except LookupError as error:
        printing.complain(f"argosy: {site_file()}: {error.args[0]}")
        return 2
    return 0 if printing.say(address) else 2


def site_file() -> str:
    """Return the name of the site's file for messages."""
    return os.environ.get("ARGOSY_SITE_FILE") or "the site's site.yaml"


def address_of_interface(name: str) -> str:
    """Return the IPv4 address of an interface. Raises LookupError."""
    address = address_of(name)
    if address is None:
        raise LookupError(
            f"the site's `interface` is {name}, but node {socket.gethostname()} has no such "
            f"interface with an address; it has {', '.join(interfaces())}"
        )
    return address


def interfaces() -> list[str]:
    return [name for _, name in socket.if_nameindex()]


def address_of_name(suffix: str) -> str:
    """Return the address of this node's short name with the suffix. Raises LookupError."""
    name = socket.gethostname().partition(".")[0] + suffix
    try:
        return socket.getaddrinfo(name, None, socket.AF_INET)[0][4][0]  # type: ignore[return-value]
    except OSError as error:
        raise LookupError(
            f"the site's `host_suffix` makes this node's name {name}, which has no address: {error}"
        ) from None


def check_reach(address: str, nodes: int, key: str) -> None:
    """Refuse a loopback address for several nodes. Raises LookupError."""
    if nodes > 1 and ipaddress.ip_address(address).is_loopback:
        others = ", ".join(name for name in interfaces() if name != "lo")
        raise LookupError(
            f"`{key}` gives node {socket.gethostname()} the address {address}, which leads to no other "
            f"node, and the job has {nodes}; its interfaces are {others}"
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

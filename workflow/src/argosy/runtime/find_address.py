"""Print this node's address in the job's network: ``python3 find_address.py INTERFACE [SUFFIX]``.

With a SUFFIX the address is that of this node's name with the suffix: some sites name a node's fast
network so, and its interfaces differ from node to node.
"""

from __future__ import annotations

import fcntl
import socket
import struct
import sys
from typing import Sequence

_SIOCGIFADDR = 0x8915  # netdevice(7)


def main(arguments: Sequence[str]) -> int:
    """Print the address; 2 when there is none."""
    if len(arguments) not in (1, 2):
        print("usage: find_address.py INTERFACE [SUFFIX]", file=sys.stderr)
        return 2
    interface, suffix = (*arguments, "")[:2]
    try:
        print(address_of_name(suffix) if suffix else address_of_interface(interface))
    except LookupError as error:
        print(f"argosy: {error.args[0]}", file=sys.stderr)
        return 2
    return 0


def address_of_interface(name: str) -> str:
    """The IPv4 address of an interface. Raises LookupError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("256s", name.encode()[:15])
        try:
            answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
        except OSError:
            there = ", ".join(name for _, name in socket.if_nameindex())
            raise LookupError(
                f"the site's `interface` is {name}, but node {socket.gethostname()} has no such "
                f"interface with an address; it has {there}"
            ) from None
    return socket.inet_ntoa(answer[20:24])


def address_of_name(suffix: str) -> str:
    """The address of this node's short name with the suffix. Raises LookupError."""
    name = socket.gethostname().partition(".")[0] + suffix
    try:
        return socket.getaddrinfo(name, None, socket.AF_INET)[0][4][0]  # type: ignore[return-value]
    except OSError as error:
        raise LookupError(
            f"the site's `host_suffix` makes this node's name {name}, which has no address: {error}"
        ) from None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

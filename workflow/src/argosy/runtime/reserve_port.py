"""Hold a free TCP port until the head listens on it: ``python3 reserve_port.py ADDRESS``.

Prints the port, and holds it until a process of the same user listens on it (with SO_REUSEPORT) or the
parent process ends, however long images are unpacked.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
import time

if not __package__:  # started by its path
    import started_by_path

    __package__ = started_by_path.PACKAGE

from . import printing

_PAUSE = 0.2  # seconds


def main(arguments: list[str]) -> int:
    """Reserve a port at an address; return 2 if it is not an address of this machine."""
    if len(arguments) != 1:
        printing.complain("usage: reserve_port.py ADDRESS")
        return 2
    # Get the parent first: if it ends now, printing the port fails.
    parent = os.getppid()
    try:
        holder = bind(arguments[0])
    except (ValueError, OSError) as error:
        printing.complain(f"argosy: cannot reserve a port at {arguments[0]}: {error}")
        return 2
    if not printing.say(str(holder.getsockname()[1])):
        return 2
    hold(holder, parent)
    return 0


def bind(address: str) -> socket.socket:
    """Return a socket bound to a free port, not listening. Raises ValueError or OSError."""
    version = ipaddress.ip_address(address).version
    holder = socket.socket(socket.AF_INET6 if version == 6 else socket.AF_INET)
    # Before bind: all sockets that share a port need the option.
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    holder.bind((address, 0))
    return holder


def hold(holder: socket.socket, parent: int) -> None:
    """Wait until a process listens on the port, or the parent has ended."""
    address = holder.getsockname()[:2]
    while os.getppid() == parent and not listening(address):
        time.sleep(_PAUSE)


def listening(address: tuple[str, int]) -> bool:
    """Return whether a process accepts connections at an address."""
    try:
        socket.create_connection(address, timeout=1.0).close()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

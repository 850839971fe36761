"""The cluster's two networks: a bridge each on the login side, a cable from each node to each of them."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cluster import linux
from cluster.errors import ClusterError
from cluster.settings import FAST_NETWORK, LOGIN_ADDRESS, address, fast_address

_BRIDGES = {"eth0": "slurm", "hs0": "fast"}
"""A node's interface, and the bridge that it is on. Nodes alone have addresses on the fast one."""

_RECEIVE_BUFFER = Path("/proc/sys/net/ipv4/tcp_rmem")
_WIDE = "4096 8388608 33554432"
_PATIENT = "initcwnd 1000 initrwnd 1000 rto_min 5s"
"""The fast network loses nothing, so nothing is to be sent again, however long it waits behind a slow
link; and what TCP would do after a pause is not what is measured there."""


def make_login_network() -> None:
    """Give this network namespace the bridges, and an address on the first."""
    bridges = _BRIDGES.values()
    _ip(
        "link set lo up",
        *(f"link add {bridge} type bridge" for bridge in bridges),
        *(f"link set {bridge} up" for bridge in bridges),
        f"address add {LOGIN_ADDRESS}/24 dev {_BRIDGES['eth0']}",
    )


def make_node_network(number: int) -> None:
    """Leave the login side's network namespace for a new one, which is the node's."""
    login = os.open("/proc/self/ns/net", os.O_RDONLY)
    _remove_cables(number)
    linux.unshare(linux.NEW_NETWORK)
    node = os.open("/proc/self/ns/net", os.O_RDONLY)
    # Where it cannot be set, TCP begins with less than a slow link holds, and waits for itself.
    with suppress(OSError):
        _RECEIVE_BUFFER.write_text(_WIDE)
    _ip("link set lo up", *_interface("eth0", number), *_interface("hs0", number))
    linux.set_namespace(login)
    _ip(*(f"link set {_plug(name, number)} master {on} up" for name, on in _BRIDGES.items()))
    linux.set_namespace(node)
    os.close(login)
    os.close(node)


@contextmanager
def without_fast_bridge(nodes: int) -> Iterator[list[str]]:
    """Take the cables of all nodes off the fast network's bridge; gives the cables' names."""
    names = [_plug("hs0", number) for number in range(1, nodes + 1)]
    _ip(*(f"link set {name} nomaster" for name in names))
    try:
        yield names
    finally:
        _ip(*(f"link set {name} master {_BRIDGES['hs0']}" for name in names))


def _interface(name: str, number: int) -> list[str]:
    own = address(number) if name == "eth0" else fast_address(number)
    return [
        # Process 1 is the cluster's first, which is on the login side's network.
        f"link add {name} type veth peer name {_plug(name, number)} netns 1",
        f"address add {own}/24 dev {name}",
        f"link set {name} up",
        *([f"route change {FAST_NETWORK} dev {name} {_PATIENT}"] if name == "hs0" else []),
    ]


def _plug(interface: str, number: int) -> str:
    """The login side's end of a cable."""
    return f"{interface}-{number}"


def _remove_cables(number: int) -> None:
    """Those of a node that lost its power go away by themselves, but not at once."""
    for name in _BRIDGES:
        command = ["ip", "link", "delete", _plug(name, number)]
        subprocess.run(command, stderr=subprocess.DEVNULL, check=False)


def _ip(*lines: str) -> None:
    done = subprocess.run(
        ["ip", "-batch", "-"], input="\n".join(lines), text=True, capture_output=True, check=False
    )
    if done.returncode:
        raise ClusterError(f"ip: {done.stderr.strip()}")

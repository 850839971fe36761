"""Hand the variables and open files of one MPI task to the node's agent, which starts the rank.

``python3 mpi_task.py NODE RANK LOCAL_RANK PREFIX…``: the first three name variables that hold the numbers
of the node, the rank and the rank on the node. Variables with one of the prefixes are handed over. The
scheduler starts one task for each rank; it ends when the agent closes the connection.
"""

from __future__ import annotations

import array
import json
import os
import signal
import socket
import sys
import time
from typing import Sequence

if not __package__:  # started by its path
    import started_by_path

    __package__ = started_by_path.PACKAGE

from .contract import mpi_task

_PAUSE = 0.1  # seconds


def main(arguments: Sequence[str]) -> int:
    """Hand everything to the agent and wait until it ends."""
    # A signal that ends the job reaches the agent too, which may let ranks save a checkpoint.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    node, rank, local_rank = (int(os.environ[name]) for name in arguments[:3])
    token, prefixes = os.environ["ARGOSY_TOKEN"], tuple(arguments[3:])
    descriptors = _descriptors()
    content = {
        "proof": mpi_task.proof(token, node),
        "rank": rank,
        "local_rank": local_rank,
        "variables": {k: v for k, v in os.environ.items() if k.startswith(prefixes)},
        "descriptors": list(descriptors),
    }
    agent = connected(mpi_task.address(token, node))
    rights = array.array("i", descriptors.values())
    agent.sendmsg(
        [json.dumps(content).encode()],
        [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if rights else [],
    )
    agent.recv(1)
    return 0


def _descriptors() -> dict[str, int]:
    """Return open files by the variables that name them: the connection of PMI, and Cray's description."""
    found = {}
    if mpi_task.CONNECTION in os.environ:
        found[mpi_task.CONNECTION] = int(os.environ[mpi_task.CONNECTION])
    if mpi_task.DESCRIPTION in os.environ:
        found[mpi_task.DESCRIPTION] = os.open(os.environ[mpi_task.DESCRIPTION], os.O_RDONLY)
    return found


def connected(address: str) -> socket.socket:
    """Connect to the agent; wait for it while it starts."""
    while True:
        agent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            agent.connect(address)
            return agent
        except ConnectionRefusedError:
            agent.close()
            time.sleep(_PAUSE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Hand what the scheduler gives an MPI rank to the node's agent, which starts the rank.

``python3 mpi_task.py NODE RANK LOCAL_RANK PREFIX…``: the variables with the numbers of the node, of the
rank and of the rank on the node, and how those begin that the rank gets. The scheduler starts it once a
rank. It ends with the agent, which has the other end of its connection.
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
    """Do it all."""
    # Who ends the job asks the agent, too, and a rank may save a checkpoint before.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    node, rank, local_rank = (int(os.environ[name]) for name in arguments[:3])
    token, prefixes = os.environ["ARGOSY_TOKEN"], tuple(arguments[3:])
    content = {
        "proof": mpi_task.proof(token, node),
        "rank": rank,
        "local_rank": local_rank,
        "variables": {k: v for k, v in os.environ.items() if k.startswith(prefixes)},
    }
    # The connection to the scheduler, of types that have one.
    descriptors = array.array("i", [int(os.environ["PMI_FD"])] if "PMI_FD" in os.environ else [])
    agent = connected(mpi_task.address(token, node))
    agent.sendmsg(
        [json.dumps(content).encode()],
        [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)] if descriptors else [],
    )
    agent.recv(1)
    return 0


def connected(address: str) -> socket.socket:
    """Return a connection to the agent, which may still be starting."""
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

"""Hand what Slurm gives an MPI rank to the node's agent, which starts the rank: ``python3 slurm_task.py``.

``srun --mpi=TYPE`` starts it once a rank. It ends with the rank: the agent then closes the connection.
"""

from __future__ import annotations

import array
import json
import os
import signal
import socket
import sys
import time

if not __package__:  # started by its path
    import started_by_path

    __package__ = started_by_path.PACKAGE

from .contract import slurm_task

_PREFIXES = ("PMI", "PALS_", "SLINGSHOT_", "SLURM_")
_PAUSE = 0.1  # seconds


def main() -> int:
    """Do it all."""
    # Who ends the job asks the agent, too, and a rank may save a checkpoint before.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    token, node = os.environ["ARGOSY_TOKEN"], int(os.environ["SLURM_NODEID"])
    content = {
        "proof": slurm_task.proof(token, node),
        "variables": {k: v for k, v in os.environ.items() if k.startswith(_PREFIXES)},
    }
    # The connection to Slurm, of types that have one.
    descriptors = array.array("i", [int(os.environ["PMI_FD"])] if "PMI_FD" in os.environ else [])
    agent = connected(slurm_task.address(token, node))
    agent.sendmsg(
        [json.dumps(content).encode()],
        [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)] if descriptors else [],
    )
    agent.recv(1)
    return 0


def connected(address: str) -> socket.socket:
    """Return a connection to the agent, which may still be starting."""
    while True:
        try:
            agent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            agent.connect(address)
            return agent
        except ConnectionRefusedError:
            time.sleep(_PAUSE)


if __name__ == "__main__":
    sys.exit(main())

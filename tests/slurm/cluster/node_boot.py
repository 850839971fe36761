"""Program: makes a node's namespaces inside those of the login side, and starts slurmd there.

`node_boot.py FOLDER NUMBER`, started with privileges over the login side's namespaces.
"""

import os
import socket
import subprocess
from pathlib import Path

from cluster import capabilities, linux
from cluster.first_process import leave_terminal, live_on
from cluster.network import make_node_network
from cluster.programs import as_child, module_arguments
from cluster.settings import Settings, node_name
from cluster.slurm_conf import slurmd_command

MODULE = "cluster.node_boot"


def main(folder: Path, number: int) -> None:
    """Make the node."""
    settings = Settings.read(folder)
    make_node_network(number)
    linux.unshare(linux.NEW_MOUNTS | linux.NEW_NAME | linux.NEW_IPC)
    linux.own_mounts()
    linux.mount_memory(Path("/dev/shm"))
    linux.mount_memory(settings.scratch)
    socket.sethostname(node_name(number))
    linux.unshare(linux.NEW_PIDS)
    as_child(lambda: _be_node(settings, number))


def _be_node(settings: Settings, number: int) -> None:
    linux.mount_processes()
    leave_terminal(settings.logs / f"{node_name(number)}.log")
    os.chdir("/")
    # What slurmd starts are users' jobs.
    capabilities.drop()
    # -b tells the controller that the node was away, jobs and all.
    subprocess.run([*slurmd_command(number), "-b"], check=False)
    live_on(owned=False)


if __name__ == "__main__":
    folder, number = module_arguments()
    main(Path(folder), int(number))

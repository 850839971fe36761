"""Program: makes the login side's namespaces and leaves their first process running.

`fabric.py FOLDER`: it ends with whoever holds its standard input open, unless it is to outlive everybody.
"""

import os
import socket
from pathlib import Path

from cluster import capabilities, linux
from cluster.first_process import leave_terminal, live_on
from cluster.namespaces import own_user_namespace
from cluster.network import make_login_network
from cluster.programs import as_child, module_arguments
from cluster.settings import Settings

MODULE = "cluster.fabric"


def main(folder: Path) -> None:
    """Make the namespaces."""
    settings = Settings.read(folder)
    own_user_namespace()
    capabilities.keep()
    linux.unshare(linux.NEW_MOUNTS | linux.NEW_NAME | linux.NEW_IPC | linux.NEW_NETWORK)
    linux.own_mounts()
    for lower, upper in settings.layers.items():
        linux.overlay(Path(upper), Path(lower))
    linux.bind(settings.etc, Path("/etc/slurm"))
    linux.bind(settings.hosts, Path("/etc/hosts"))
    socket.sethostname("login")
    make_login_network()
    # From here on children have process ids of their own. /proc stays the host's: a command
    # on the login side is one of the host's processes, and nothing here needs another.
    linux.unshare(linux.NEW_PIDS)
    as_child(lambda: _stay(settings))


def _stay(settings: Settings) -> None:
    leave_terminal(settings.logs / "login.log", stdin=None if settings.outlive else 0)
    os.chdir("/")
    live_on(owned=not settings.outlive)


if __name__ == "__main__":
    main(Path(*module_arguments()))

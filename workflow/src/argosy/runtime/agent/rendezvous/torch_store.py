"""Torch's store, served by a process of the head instead of rank 0, as with torchrun.

The head's agent listens from the start, and a process of the image serves there: connections wait for it.
If the image has no torch, or one before 2.0, rank 0 listens itself.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
from typing import Sequence

from ..processes.launch import environment_of, workdir
from ..settings import MeetingPoint, Settings

_PATIENCE_S = 30.0
# Torch can serve on an open socket since 2.0. The metadata has its version: an import takes a second.
# The program's folder is not searched: its modules may have the names of others.
_ALONE = "import sys; sys.path[:] = filter(None, sys.path)\n"
_CHECK = f"""{_ALONE}
from importlib.metadata import version
print(int(version("torch").split(".")[0]) >= 2)
"""
_SERVE = f"""{_ALONE}
import signal
from torch.distributed import TCPStore
host, port, size, descriptor = sys.argv[1], *map(int, sys.argv[2:])
store = TCPStore(host, port, size, is_master=True, wait_for_workers=False, master_listen_fd=descriptor)
signal.pause()
"""


def can_serve(settings: Settings) -> bool:
    """Return whether the image's torch can serve the store; a slow file system delays the answer."""
    try:
        done = subprocess.run(
            [_python(settings), "-c", _CHECK],
            env=environment_of(settings, 0, MeetingPoint()),
            cwd=workdir(settings),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE_S,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    # Not by the exit code: the agent's main thread may reap the process first.
    # The image's own sitecustomize may print before.
    return done.stdout.endswith(b"True\n")


def store_command(settings: Settings, listener: socket.socket) -> Sequence[str]:
    """Return the command that serves the store on an inherited socket."""
    place = (settings.head_address, listener.getsockname()[1], settings.ranks, listener.fileno())
    return [_python(settings), "-c", _SERVE, *map(str, place)]


def _python(settings: Settings) -> str:
    program = settings.run.command[0]
    return program if re.fullmatch(r"python[0-9.]*", os.path.basename(program)) else "python3"

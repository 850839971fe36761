"""The store over which torch's ranks meet, as torchrun has it: not rank 0's.

The head's agent listens from the start, and a process of the image serves there: connections wait for it.
Where the image's torch cannot do that, or the program is none of torch's, rank 0 listens by itself.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
from typing import Sequence

from ..processes.launch import environment_of, workdir
from ..settings import MeetingPoint, Settings
from .reserved_ports import listen_alone

_PATIENCE_S = 30.0
# Torch 2.0 is the first to serve at a socket that listens already. Its import takes a second.
# Modules of the program may have names of others.
_ALONE = "import sys; sys.path[:] = filter(None, sys.path)\n"
_CHECK = f"""{_ALONE}
from importlib.metadata import version
sys.exit(int(version("torch").split(".")[0]) < 2)
"""
_SERVE = f"""{_ALONE}
import signal
from torch.distributed import TCPStore
host, port, size, descriptor = sys.argv[1], *map(int, sys.argv[2:])
store = TCPStore(host, port, size, is_master=True, wait_for_workers=False, master_listen_fd=descriptor)
signal.pause()
"""


def listen_for_store(settings: Settings) -> socket.socket | None:
    """Listen at a free port of the head; None where no store could be served there. Raises OSError."""
    try:
        done = subprocess.run(
            [_python(settings), "-c", _CHECK],
            env=environment_of(settings, 0, MeetingPoint()),
            cwd=workdir(settings),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE_S,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return None if done.returncode else listen_alone()


def store_command(settings: Settings, listener: socket.socket) -> Sequence[str]:
    """Return the command that serves the store at a socket, which it inherits."""
    place = (settings.head_address, listener.getsockname()[1], settings.ranks, listener.fileno())
    return [_python(settings), "-c", _SERVE, *map(str, place)]


def _python(settings: Settings) -> str:
    program = settings.run.command[0]
    return program if re.fullmatch(r"python[0-9.]*", os.path.basename(program)) else "python3"

"""The job's token, kept from everything else that runs as the same user: ranks need it for nothing.

A process may read another's memory and environment (proc(5), ptrace(2)) if both are of one user and the
other can be dumped. So an agent makes itself one that cannot, before it starts any rank.
"""

from __future__ import annotations

import contextlib
import os
from typing import Mapping, MutableMapping

TOKEN = "ARGOSY_TOKEN"
TOKEN_FILE = "ARGOSY_TOKEN_FILE"
_PR_SET_DUMPABLE = 4  # prctl(2)


def take_secrets(environ: MutableMapping[str, str]) -> Mapping[str, str]:
    """Return the variables with the token, which is then in no file and no variable any more.

    In a container it comes by a file: its first process, a shell, keeps its own environment for all
    to read. Raises OSError.
    """
    hide_memory()
    variables = dict(environ)
    environ.pop(TOKEN, None)
    path = environ.pop(TOKEN_FILE, None)
    if path:
        with open(path, encoding="ascii") as file:
            variables[TOKEN] = file.read()
        os.unlink(path)
    return variables


def hide_memory() -> None:
    """Let no other process of this user read this one's memory, or that of what it forks."""
    if _is_traced():
        return
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes  # some small Pythons lack it

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _is_traced() -> bool:
    """Return whether somebody traces this process, as proot does: it could read its memory no longer."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            return any(line.startswith("TracerPid:") and int(line[10:]) for line in file)
    except (OSError, ValueError):
        return False

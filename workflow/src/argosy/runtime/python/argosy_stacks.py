"""Python's stacks of this process, on demand: a signal writes them to a file of the agent's folder.

The file is `<pid>.<descriptor>`: by both, the agent knows that the process still has it open, and
signals nobody else. The program's own signals, handlers and output are left alone.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import fcntl
import os
import signal

FOLDER = "ARGOSY_STACKS"
# Real-time signals have no meaning to anybody; the last few of them are some debuggers'.
SIGNAL = signal.SIGRTMAX - 5
# Programs that count on the lowest free descriptors find them as they are used to.
_LEAST_DESCRIPTOR = 200


def register() -> None:
    """Do it for this process, if an agent asks for it. Raises OSError or RuntimeError."""
    folder = os.environ.get(FOLDER)
    if not folder or signal.getsignal(SIGNAL) is not signal.SIG_DFL:
        return
    new = os.path.join(folder, f"{os.getpid()}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
    low = os.open(new, flags, 0o600)
    try:
        descriptor = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, _LEAST_DESCRIPTOR)
    finally:
        os.close(low)
    faulthandler.register(SIGNAL, file=descriptor, all_threads=True)
    path = os.path.join(folder, f"{os.getpid()}.{descriptor}")
    os.rename(new, path)
    atexit.register(_remove, path, os.getpid())


def _remove(path: str, pid: int) -> None:
    # A forked child that ends must not take its parent's.
    if os.getpid() == pid:
        with contextlib.suppress(OSError):
            os.unlink(path)

"""Dumps Python stacks on a signal from the agent, into a file in the agent's folder.

The file's name is `<pid>.<descriptor>`, with which the agent checks that the process has it open before
it sends the signal. The program's signals, handlers and output are unaffected.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import fcntl
import os
import signal

FOLDER = "ARGOSY_STACKS"
# Programs rarely use real-time signals; debuggers use the last few.
SIGNAL = signal.SIGRTMAX - 5
# Leave the lowest descriptors to the program.
_LEAST_DESCRIPTOR = 200


def register() -> None:
    """Register this process, if the agent set `FOLDER`. Raises OSError or RuntimeError."""
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
    # A forked child must not remove its parent's file.
    if os.getpid() == pid:
        with contextlib.suppress(OSError):
            os.unlink(path)

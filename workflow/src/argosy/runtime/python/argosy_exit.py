"""Ends a rank's Python so that neither this rank nor the others hang or crash.

Threads of PyTorch's Gloo hold the tensors of a collective a moment longer than its caller waits. A thread
that needs the interpreter to release them while Python exits aborts the process ("terminate called
without an active exception"), so a finished training would count as failed. `destroy_process_group` does
not prevent this if a model holds the group.

After an uncaught exception, mpi4py calls MPI_Finalize, which waits for the other ranks, which wait for
this one. MPI_Abort ends the job instead.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import time

_NAME = "pt_gloo_runloop"
_PAUSE_S = 0.005
_AT_MOST_S = 5.0


def register() -> None:
    """Register handlers that run at exit, after all handlers of the program."""
    # Handlers run in reverse order.
    atexit.register(_abort)
    atexit.register(_wait)


def _abort() -> None:
    mpi = sys.modules.get("mpi4py.MPI")
    is_failed = getattr(sys, "last_type", None) is not None
    if mpi and is_failed and mpi.Is_initialized() and not mpi.Is_finalized():
        mpi.COMM_WORLD.Abort(1)


def _wait() -> None:
    if "torch" in sys.modules:
        with contextlib.suppress(OSError):
            _wait_until_idle()


def _wait_until_idle() -> None:
    """Wait until no such thread has run for a pause, in which it could have got the interpreter."""
    end = time.monotonic() + _AT_MOST_S
    before: dict[str, tuple[str, str]] | None = None
    while time.monotonic() < end:
        now = _threads()
        if all(state == "S" for state, _ in now.values()) and (not now or now == before):
            return
        before = now
        time.sleep(_PAUSE_S)


def _threads() -> dict[str, tuple[str, str]]:
    """Return state and number of context switches of each such thread, by id."""
    found = {}
    for number in os.listdir("/proc/self/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            path = f"/proc/self/task/{number}/status"
            with open(path, encoding="utf-8", errors="replace") as status:
                lines = [line.partition(":") for line in status]
            values = {key: value.strip() for key, _, value in lines}
            if values.get("Name") == _NAME:
                # Sandboxed kernels such as gVisor lack this count.
                waits = values.get("voluntary_ctxt_switches", "")
                found[number] = (values.get("State", "")[:1], waits)
    return found

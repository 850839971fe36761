"""The processes that a container consists of, as the host sees them: ended with the one that runs it."""

import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

STOP_GRACE_S = 6.0
"""From asking a container to end until it is killed; a cancelled run must be gone within 10 s."""

REPEAT_S = 2.0
"""Signals so soon after the first are the same one: a scheduler sends it to every process of a job, and
some pass it on besides."""


@contextmanager
def ended_with_us(
    process: subprocess.Popen[bytes], patience_s: float = 0.0
) -> Iterator[threading.Event]:
    """End the container when this process is asked to end, or leaves with an exception.

    What runs inside gets `patience_s` besides the usual grace, unless this process is asked once more.
    Gives an event that is set when it was asked.
    """
    asked = threading.Event()
    first: float | None = None
    ending: list[threading.Thread] = []

    def stop(number: int, frame: object) -> None:
        nonlocal first
        now = time.monotonic()
        if first is not None and now < first + REPEAT_S:
            return
        grace_s = STOP_GRACE_S + (patience_s if first is None else 0.0)
        first = now if first is None else first
        asked.set()
        thread = threading.Thread(target=end_container, args=(process.pid, grace_s), daemon=True)
        ending.append(thread)
        thread.start()

    in_main = threading.current_thread() is threading.main_thread()
    previous = {
        number: signal.signal(number, stop)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        if in_main
    }
    try:
        yield asked
    finally:
        if process.poll() is None:
            end_container(process.pid)
            process.wait()
        # The engine may have ended before all that was around it.
        for thread in ending:
            thread.join()
        for number, handler in previous.items():
            signal.signal(number, handler)


def end_container(engine_pid: int, grace_s: float = STOP_GRACE_S) -> None:
    """Ask the container to end, and kill it and all around it after `grace_s` seconds."""
    # Imported now: every node waits for a container to start, and psutil has no part in that.
    import psutil

    try:
        engine = psutil.Process(engine_pid)
        family = [engine, *engine.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for process in _first_processes(family):
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    _, alive = psutil.wait_procs(family, timeout=grace_s)
    for process in alive:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _first_processes(family: "list[psutil.Process]") -> "list[psutil.Process]":
    """Return the container's first process, just below the runtime; without one, all but the engine."""
    import psutil

    runtimes, first = set(), []
    for process in family:
        with suppress(psutil.NoSuchProcess):
            if process.name().startswith(("runc", "crun")):
                runtimes.add(process.pid)
    for process in family:
        with suppress(psutil.NoSuchProcess):
            if process.ppid() in runtimes:
                first.append(process)
    return first or family[1:]

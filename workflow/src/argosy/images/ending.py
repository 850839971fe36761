"""Ends containers for sure: the processes that a container consists of, as the host sees them."""

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil

STOP_GRACE_S = 6.0
"""From asking a container to end until it is killed; a cancelled run must be gone within 10 s."""


@contextmanager
def ended_with_us(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """End the container when this process is asked to end, or leaves with an exception."""

    def stop(number: int, frame: object) -> None:
        threading.Thread(target=end_container, args=(process.pid,), daemon=True).start()

    in_main = threading.current_thread() is threading.main_thread()
    previous = {
        number: signal.signal(number, stop)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        if in_main
    }
    try:
        yield
    finally:
        if process.poll() is None:
            end_container(process.pid)
            process.wait()
        for number, handler in previous.items():
            signal.signal(number, handler)


def end_container(udocker_pid: int) -> None:
    """Ask the container to end, and kill it and all around it after a grace."""
    try:
        udocker = psutil.Process(udocker_pid)
        family = [udocker, *udocker.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for process in _first_processes(family):
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    _, alive = psutil.wait_procs(family, timeout=STOP_GRACE_S)
    for process in alive:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _first_processes(family: list[psutil.Process]) -> list[psutil.Process]:
    """The container's first process, just below the runtime; all but udocker where there is none."""
    runtimes = {process.pid for process in family if _name(process).startswith(("runc", "crun"))}
    first = [process for process in family if _parent(process) in runtimes]
    return first or family[1:]


def _parent(process: psutil.Process) -> int | None:
    try:
        return process.ppid()
    except psutil.NoSuchProcess:
        return None


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""

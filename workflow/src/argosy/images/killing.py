"""Ends containers for sure: the processes that a container consists of, as the host sees them."""

from contextlib import suppress

import psutil

STOP_GRACE_S = 6.0
"""From asking a container to end until it is killed; a cancelled run must be gone within 10 s."""


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

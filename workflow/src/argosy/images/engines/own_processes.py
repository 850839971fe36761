"""The processes that descend from this one. Standard library only."""

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def is_ours(number: int) -> bool:
    """Return whether a process, or the process of a thread, descends from this one.

    Raises:
        ProcessLookupError: when it is not there.
    """
    while number > 1 and (number := parent(number)) != os.getpid():
        pass
    return number == os.getpid()


def parent(number: int) -> int:
    """Return the parent of a process.

    Raises:
        ProcessLookupError: when it is not there.
    """
    try:
        text = Path(f"/proc/{number}/stat").read_text(errors="replace")
    except FileNotFoundError:
        raise ProcessLookupError(errno.ESRCH, "no such process") from None
    # Behind the program's name, which may hold anything.
    return int(text.rpartition(")")[2].split()[1])


def below() -> list[int]:
    """Return the processes that descend from this one, those to be waited for among them."""
    found: list[int] = []
    parents = dict(_parents())
    level = {os.getpid()}
    while level := {process for process, above in parents.items() if above in level}:
        found += level
    return found


def signal_group(group: int, signal: int) -> None:
    """Send a signal to those of a group of processes that are the container's."""
    members = [process for process in below() if _group(process) == group]
    if not members:
        raise PermissionError(errno.EPERM, "none is the container's")
    for process in members:
        with suppress(ProcessLookupError):
            os.kill(process, signal)


def _group(process: int) -> int | None:
    with suppress(ProcessLookupError):
        return os.getpgid(process)
    return None


def _parents() -> Iterator[tuple[int, int]]:
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with suppress(OSError):
                yield int(place.name), parent(int(place.name))

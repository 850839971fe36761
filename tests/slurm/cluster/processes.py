"""Finding the cluster's processes from outside, by what the kernel says of them.

Nothing is remembered in files: a process id in a file may be somebody else's by now.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster.errors import ClusterError
from cluster.programs import runs_module

_PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """A process that is alive, with its id as seen from here."""

    pid: int
    name: str
    command: tuple[str, ...]
    inner_pid: int
    """Its id in its own namespace."""

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal, unless it has ended."""
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return


def first_of_namespace(module: Sequence[str]) -> Process | None:
    """The living first process of a namespace that runs this module of ours with these arguments."""
    for process in _all():
        if process.inner_pid == 1 and runs_module(process.command, module):
            return process
    return None


def network_of(process: Process) -> int:
    """The number of the network that a process is on.

    Raises:
        ClusterError: when it has ended.
    """
    number = _network(process.pid)
    if number is None:
        raise ClusterError(f"process {process.pid} ({process.name}) has ended")
    return number


def on_network(number: int) -> list[Process]:
    """All processes on a network: those of a node, or of the login side.

    The network tells better than the process ids' namespace: containers have process ids of
    their own, and commands on the login side have the host's.
    """
    return [process for process in _all() if _network(process.pid) == number]


def wait_until(condition: Callable[[], bool], what: str, seconds: float) -> None:
    """Wait for something that comes about by itself.

    Raises:
        ClusterError: when it has not after `seconds`.
    """
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise ClusterError(f"{what}: not within {seconds:g} s")
        time.sleep(0.05)


def _all() -> Iterator[Process]:
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            try:
                process = _read(folder)
            except OSError:
                continue  # It ended meanwhile.
            if process:
                yield process


def _read(folder: Path) -> Process | None:
    """The process, if it is not a zombie."""
    lines = (folder / "status").read_text().splitlines()
    status = dict(line.split(":", 1) for line in lines if ":" in line)
    if status["State"].strip().startswith(("Z", "X")):
        return None
    arguments = (folder / "cmdline").read_text(errors="surrogateescape").rstrip("\0").split("\0")
    inner = status.get("NSpid", folder.name).split()[-1]
    return Process(int(folder.name), status["Name"].strip(), tuple(arguments), int(inner))


def _network(pid: int) -> int | None:
    try:
        return Path(f"/proc/{pid}/ns/net").stat().st_ino
    except OSError:
        return None

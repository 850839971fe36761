"""Run one command confined by Landlock, a system call filter and a judge, and kill its children at the end.

A file describes the command (`Confinement`). This process stays outside the confinement: it adopts
orphans, and kills the remaining processes when the command ends or this process's own parent dies.
`command` starts it without the environment's packages, since every container waits for it. Standard
library only.
"""

import ctypes
import json
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

from argosy_images.engines import call_filter, judge, landlock

_SET_PARENT_DEATH_SIGNAL, _SET_SUBREAPER = 1, 36
_FAILED = 127

STATUS_DESCRIPTOR = 9
"""Descriptor to which the command may write its exit status in digits, which ends it and its children."""

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Confinement:
    """A command, and the paths that it may access if the kernel has Landlock.

    Args:
        owns_all: ignore changes of owners with success.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    readable: Sequence[str]
    writable: Sequence[str]
    owns_all: bool = False

    def write(self, path: Path) -> None:
        """Write the description to a private file, since variables may be secret."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(self), file)


def command(description: Path) -> list[str | Path]:
    """Return the command line that runs a described command as a child of this process."""
    source = Path(__file__).parents[2]
    start = (
        f"import sys; sys.path.insert(0, {str(source)!r}); "
        "from argosy_images.engines.confined import main; main(sys.argv[1], int(sys.argv[2]))"
    )
    return [sys.executable, "-I", "-S", "-c", start, description, str(os.getpid())]


def main(description: str, parent: int) -> NoReturn:
    """Run the command and exit with its status, or with 128 plus the signal that killed it."""
    confinement = Confinement(**json.loads(Path(description).read_text(encoding="utf-8")))
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _kill_and_leave if number == signal.SIGHUP else signal.SIG_IGN)
    _libc.prctl(_SET_SUBREAPER, 1, 0, 0, 0)
    _libc.prctl(_SET_PARENT_DEATH_SIGNAL, int(signal.SIGHUP), 0, 0, 0)
    if os.getppid() != parent:
        # The parent died before prctl took effect.
        os._exit(128 + signal.SIGHUP)
    status_reader, status_writer = os.pipe()
    here, there = socket.socketpair()
    child = os.fork()
    if child == 0:
        os.dup2(status_writer, STATUS_DESCRIPTOR)
        _become(confinement, there)
    os.close(status_writer)
    there.close()
    _, listeners, _, _ = socket.recv_fds(here, 1, 1)
    for listener in listeners:
        asked = _judge(listener, confinement, child)
        threading.Thread(target=asked.serve, daemon=True).start()
    status = _status_of(child, status_reader)
    _kill_all()
    os._exit(status)


def _judge(listener: int, confinement: Confinement, proot: int) -> judge.Judge:
    return judge.Judge(
        listener,
        passed_over=0 if confinement.owns_all else proot,
        readable=[os.path.realpath(path) for path in confinement.readable],
        writable=[os.path.realpath(path) for path in confinement.writable],
        modes=0o7777 if confinement.owns_all else 0o1777,
    )


def _become(confinement: Confinement, there: socket.socket) -> NoReturn:
    """Confine this process, send the judge's descriptor to the parent, and execute the command."""
    try:
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        # The children of a killed proot run on, and their paths are paths of the host.
        _libc.prctl(_SET_PARENT_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)
        # Builds move files between folders, which the first Landlock forbids.
        if landlock.version() >= (landlock.KNOWS_MOVES if confinement.owns_all else 1):
            landlock.restrict(confinement.readable, confinement.writable)
        listener = call_filter.filter_calls(owns_all=confinement.owns_all)
        if listener is not None:
            socket.send_fds(there, [b"1"], [listener])
            os.close(listener)
        os.execve(confinement.command[0], [*confinement.command], {**confinement.environment})
    except OSError as problem:
        what = problem.filename or confinement.command[0]
        print(f"{what}: {problem.strerror}", file=sys.stderr, flush=True)
    os._exit(_FAILED)


def _status_of(child: int, reader: int) -> int:
    """Wait until the command reports its status or ends; reap orphans meanwhile."""
    wakeup_reader, wakeup_writer = os.pipe2(os.O_NONBLOCK)
    signal.set_wakeup_fd(wakeup_writer)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    status: int | None = None
    while status is None:
        # Reap children that ended before the signal.
        for ended, code in _ended():
            status = code if ended == child else status
        timeout_s = None if status is None else 0
        ready, _, _ = select.select([reader, wakeup_reader], [], [], timeout_s)
        if wakeup_reader in ready:
            os.read(wakeup_reader, 64)
        if reader in ready and (text := os.read(reader, 16)):
            # The program itself may have written anything else.
            return int(text) if text.strip().isdigit() else _FAILED
        if reader in ready and status is None:
            # Pipe closed: the child can report nothing more.
            status = _code(os.waitpid(child, 0)[1])
    return status


def _ended() -> Iterator[tuple[int, int]]:
    """Reap ended children; yield their process ids and their statuses as a shell reports them."""
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            yield found[0], _code(found[1])


def _code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _kill_and_leave(number: int, frame: object) -> NoReturn:
    _kill_all()
    os._exit(128 + number)


def _kill_all() -> None:
    """Kill all descendants of this process, repeatedly, since a child may have forked meanwhile."""
    while below := judge.below():
        for process in below:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.wait()

"""Judges calls of confined programs of which a filter cannot tell what is meant by a number.

The kernel holds the caller until it has an answer (seccomp_unotify(2)). A call for another process is
allowed where that is the container's own; the caller then makes it, since nobody can change its registers.
Modes and times of an open file are changed here, since a descriptor may be another file's a moment later.
Source: linux/seccomp.h. Standard library only.
"""

import ctypes
import errno
import fcntl
import os
import platform
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from argosy.images.engines.call_numbers import CALLS

_ASKED, _ANSWER = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_GO_ON = 1
_MODE = 0o1777
"""A file that changes the user of its program would give the user's rights to others of the host."""
_HERE, _TIMES = -100, 32
"""AT_FDCWD; bytes of two struct timespec."""

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Judge:
    """Answers for one container, whose processes descend from this one.

    Args:
        listener: where the kernel asks.
        writable: what programs of the container may change, without symbolic links.
    """

    listener: int
    writable: Sequence[str]

    def answer(self) -> None:
        """Answer one call; whoever made it may have been killed meanwhile."""
        asked = bytearray(_ASKED.size)
        with suppress(OSError):
            fcntl.ioctl(self.listener, _RECEIVE, asked)
            which, caller, _, call, _, _, *arguments = _ASKED.unpack(asked)
            error, flags = 0, 0
            try:
                flags = _GO_ON if self._may_go_on(caller, call, arguments) else 0
            except OSError as problem:
                error = -(problem.errno or errno.EPERM)
            fcntl.ioctl(self.listener, _SEND, _ANSWER.pack(which, 0, error, flags))

    def _may_go_on(self, caller: int, call: int, arguments: Sequence[int]) -> bool:
        """Return whether the caller makes the call itself; False where it is done.

        Raises:
            OSError: with the error that the call fails with.
        """
        calls = CALLS[platform.machine()]
        first, second = (ctypes.c_int(each).value for each in arguments[:2])
        if call in (calls.fchmod, calls.utimensat):
            times = arguments[2] if call == calls.utimensat else None
            self._change(f"/proc/{caller}", first, second & _MODE, times)
            return False
        if call == calls.kill and first <= 0:
            _signal_group(os.getpgid(caller) if first == 0 else -first, second)
            return False
        target = second if call in (calls.setpriority, calls.ioprio_set) else first
        if not is_ours(target):
            raise PermissionError(errno.EPERM, "a process of another container, or of the host")
        return True

    def _change(self, process: str, descriptor: int, mode: int, times: int | None) -> None:
        """Change the mode of an open file, or its times, which lie there in the caller's memory.

        Nothing changes where the container may not write, as in calls that name a path.
        """
        try:
            file = os.open(f"{process}/fd/{descriptor}", os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            raise OSError(errno.EBADF, "not open") from None
        try:
            path = f"/proc/self/fd/{file}"
            if not any(Path(path).readlink().is_relative_to(place) for place in self.writable):
                return
            if times is None:
                Path(path).chmod(mode)
                return
            given = _memory(process, times) if times else None
            if _libc.utimensat(_HERE, path.encode(), given, 0) != 0:
                raise OSError(ctypes.get_errno(), "utimensat")
        finally:
            os.close(file)


def _memory(process: str, address: int) -> bytes:
    with Path(f"{process}/mem").open("rb", buffering=0) as memory:
        memory.seek(address)
        return memory.read(_TIMES)


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


def _signal_group(group: int, signal: int) -> None:
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

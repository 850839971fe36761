"""Decide system calls of confined programs that the filter cannot decide (seccomp_unotify(2)).

The kernel stops the caller until it gets an answer. A call for another process continues if that process
belongs to the container. Modes, times and attributes are changed here instead of by the caller: another
thread of the caller could replace a path or descriptor between check and call.
Source: linux/seccomp.h. Standard library only.
"""

import ctypes
import errno
import fcntl
import os
import platform
import select
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from argosy_images.engines.call_numbers import CALLS

_HERE, _NO_FOLLOW, _NOW = -100, 0x100, 0x3FFFFFFF
"""AT_FDCWD, AT_SYMLINK_NOFOLLOW, UTIME_NOW."""
_TIMES = struct.Struct("=4q")
"""Access and modification time, each in seconds and nanoseconds."""
_LONGEST_PATH, _LONGEST_NAME, _LONGEST_VALUE = 4096, 256, 65536

_libc = ctypes.CDLL(None, use_errno=True)
_calls = CALLS.get(platform.machine(), CALLS["x86_64"])
_SET, _SET_LINK, _SET_OPEN, _REMOVE, _REMOVE_LINK, _REMOVE_OPEN = _calls.attributes


@dataclass(frozen=True)
class Change:
    """A requested change of a file: of its mode, its times, or one extended attribute.

    Args:
        path: the file's path; empty for an open file.
        descriptor: the open file's descriptor in the calling process.
        follows: follow a symbolic link.
        times: as in `_TIMES`.
        attribute: the name of the attribute.
        value: the attribute's new value; None removes it.
        flags: flags of setxattr(2).
    """

    path: str
    descriptor: int
    follows: bool = True
    mode: int | None = None
    times: Sequence[int] = ()
    attribute: str = ""
    value: bytes | None = None
    flags: int = 0

    @property
    def is_now(self) -> bool:
        """Whether both times are the current time, as touch(1) requests."""
        return bool(self.times) and self.times[1] == self.times[3] == _NOW

    def apply(self, path: str, modes: int) -> None:
        """Apply the change to the file at `path`; set only the mode bits in `modes`.

        Raises:
            OSError: as the system call.
        """
        if self.mode is not None:
            Path(path).chmod(self.mode & modes)
        elif self.times:
            if _libc.utimensat(_HERE, path.encode(), _TIMES.pack(*self.times), 0) != 0:
                raise OSError(ctypes.get_errno(), "utimensat")
        elif self.value is None:
            os.removexattr(path, self.attribute)
        else:
            os.setxattr(path, self.attribute, self.value, self.flags)


def change_of(caller: int, call: int, arguments: Sequence[int]) -> Change:
    """Read the change that a call of `Calls.changing` or `Calls.attributes` requests.

    Raises:
        OSError: the error to return to the caller, for example EFAULT.
    """
    memory = Memory(caller)
    first, second, third, fourth, fifth, _ = arguments
    if call in (_calls.chmod, _calls.utime, _calls.utimes, _SET, _SET_LINK, _REMOVE, _REMOVE_LINK):
        path, descriptor = memory.path(first), _HERE
    elif call in (_calls.fchmod, _SET_OPEN, _REMOVE_OPEN):
        path, descriptor = "", ctypes.c_int(first).value
    else:
        # A null path means the descriptor itself.
        path = memory.path(second) if second else ""
        descriptor = ctypes.c_int(first).value
    if call in _calls.attributes:
        name = memory.text(second, _LONGEST_NAME)
        follows = call not in (_SET_LINK, _REMOVE_LINK)
        if call in (_REMOVE, _REMOVE_LINK, _REMOVE_OPEN):
            return Change(path, descriptor, follows, attribute=name)
        if fourth > _LONGEST_VALUE:
            raise OSError(errno.E2BIG, "an extended attribute")
        value = memory.content(third, fourth)
        return Change(
            path, descriptor, follows, attribute=name, value=value, flags=fifth & 0xFFFFFFFF
        )
    if call in (_calls.chmod, _calls.fchmod):
        return Change(path, descriptor, mode=second)
    if call == _calls.fchmodat:
        return Change(path, descriptor, mode=third)
    address = second if call in (_calls.utime, _calls.utimes) else third
    follows = call != _calls.utimensat or not fourth & _NO_FOLLOW
    return Change(path, descriptor, follows, times=_times(memory, call, address))


def _times(memory: "Memory", call: int, address: int) -> Sequence[int]:
    if not address:
        return 0, _NOW, 0, _NOW
    if call == _calls.utime:
        used, changed = struct.unpack("=2q", memory.content(address, 16))
        return used, 0, changed, 0
    used, used_part, changed, changed_part = _TIMES.unpack(memory.content(address, _TIMES.size))
    parts = 1 if call == _calls.utimensat else 1000
    return used, used_part * parts, changed, changed_part * parts


@dataclass(frozen=True)
class Memory:
    """Reads the memory of another process."""

    process: int

    def text(self, address: int, longest: int) -> str:
        """Read a text that ends with a zero byte.

        Raises:
            OSError: EFAULT if unreadable, ENAMETOOLONG if no zero byte is found.
        """
        text, end, _ = self._read_memory(address, longest).partition(b"\0")
        if not end:
            raise OSError(errno.ENAMETOOLONG if text else errno.EFAULT, "no text")
        return os.fsdecode(text)

    def path(self, address: int) -> str:
        """Read a path as `text` does; raise OSError ENOENT if it is empty."""
        found = self.text(address, _LONGEST_PATH)
        if not found:
            raise OSError(errno.ENOENT, "an empty path")
        return found

    def content(self, address: int, size: int) -> bytes:
        """Read `size` bytes.

        Raises:
            OSError: EFAULT if fewer are readable.
        """
        found = self._read_memory(address, size)
        if len(found) < size:
            raise OSError(errno.EFAULT, "too short")
        return found

    def _read_memory(self, address: int, most: int) -> bytes:
        file = os.open(f"/proc/{self.process}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(file, most, address)
        except (OSError, OverflowError):
            return b""
        finally:
            os.close(file)


def is_ours(number: int) -> bool:
    """Return whether a process, or the process of a thread, descends from this process.

    Raises:
        ProcessLookupError: if it does not exist.
    """
    while number > 1 and (number := parent(number)) != os.getpid():
        pass
    return number == os.getpid()


def parent(number: int) -> int:
    """Return the parent's process id.

    Raises:
        ProcessLookupError: if the process does not exist.
    """
    try:
        text = Path(f"/proc/{number}/stat").read_text(errors="replace")
    except FileNotFoundError:
        raise ProcessLookupError(errno.ESRCH, "no such process") from None
    # The field follows the program's name, which may contain parentheses.
    return int(text.rpartition(")")[2].split()[1])


def below() -> list[int]:
    """Return all descendants of this process, including zombies."""
    found: list[int] = []
    parents = dict(_parents())
    level = {os.getpid()}
    while level := {process for process, above in parents.items() if above in level}:
        found += level
    return found


def signal_group(group: int, signal: int) -> None:
    """Send a signal to the container's processes of a process group.

    Raises:
        PermissionError: if the group has none.
    """
    members = [process for process in below() if _group(process) == group]
    if not members:
        raise PermissionError(errno.EPERM, "no process of the container is in this group")
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


_REQUEST, _RESPONSE = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
_RECEIVE, _SEND, _SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082104
_CONTINUE, _SYNC_WAKE_UP = 1, 1
"""SECCOMP_USER_NOTIF_FLAG_CONTINUE, and, since Linux 6.6, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP. The latter
shortens 80,000 waits of proot while PyTorch is imported."""

_BY_NAME = (_calls.chmod, _calls.fchmodat)


@dataclass(frozen=True)
class Judge:
    """Answers the calls of one container, whose processes descend from this process.

    Args:
        listener: the descriptor on which the kernel sends the calls.
        passed_over: proot's process id. Its mode changes by name do nothing and report success, since it
            changes the mode of each folder on a path.
        readable: paths that the container may read only, without symbolic links.
        writable: paths that the container may change, without symbolic links.
        modes: mode bits that programs may set. A setuid program would give others the user's rights.
    """

    listener: int
    passed_over: int
    readable: Sequence[str]
    writable: Sequence[str]
    modes: int

    def serve(self) -> None:
        """Answer calls until the container's last process has ended."""
        with suppress(OSError):
            fcntl.ioctl(self.listener, _SET_FLAGS, _SYNC_WAKE_UP)
        left = select.poll()
        left.register(self.listener, select.POLLIN)
        while True:
            asked = bytearray(_REQUEST.size)
            try:
                fcntl.ioctl(self.listener, _RECEIVE, asked)
                fcntl.ioctl(self.listener, _SEND, self._answer(*_REQUEST.unpack(asked)))
            except OSError:
                # The caller was killed meanwhile, or was the last process.
                if any(event & select.POLLHUP for _, event in left.poll(0)):
                    return

    def _answer(
        self, asked: int, caller: int, _: int, call: int, _audit: int, _at: int, *arguments: int
    ) -> bytes:
        if caller == self.passed_over and call in _BY_NAME:
            return _RESPONSE.pack(asked, 0, 0, 0)
        error, flags = 0, 0
        try:
            if call in (*_calls.changing, *_calls.attributes):
                self._change(caller, change_of(caller, call, arguments))
            elif _may_continue(caller, call, arguments):
                flags = _CONTINUE
        except OSError as problem:
            error = -(problem.errno or errno.EPERM)
        except (ValueError, ArithmeticError, struct.error):
            error = -errno.EINVAL
        return _RESPONSE.pack(asked, 0, error, flags)

    def _change(self, caller: int, change: Change) -> None:
        """Apply a change if the container may write to the file.

        Raises:
            OSError: the error to return to the caller.
        """
        if change.path and not _lies_in(change.path, (*self.writable, *self.readable)):
            # A proot with its own filter has not rewritten the path yet, or a hostile program names a path
            # of the host. Ignore the call with success; but touch(1) needs an error to create the file.
            if change.is_now:
                raise PermissionError(errno.EACCES, "not a path of this container")
            return
        flags = os.O_PATH | os.O_CLOEXEC | (0 if change.follows else os.O_NOFOLLOW)
        try:
            file = os.open(change.path or f"/proc/{caller}/fd/{change.descriptor}", flags)
        except FileNotFoundError:
            raise OSError(errno.ENOENT if change.path else errno.EBADF, "not there") from None
        try:
            path = f"/proc/self/fd/{file}"
            place = str(Path(path).readlink())
            if _lies_in(place, self.writable):
                change.apply(path, self.modes)
            elif _lies_in(place, self.readable):
                raise OSError(errno.EROFS, "read-only")
        finally:
            os.close(file)


def _lies_in(path: str, places: Sequence[str]) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in places)


def _may_continue(caller: int, call: int, arguments: Sequence[int]) -> bool:
    """Return whether the kernel should continue a call for a process; False if it is done here.

    Raises:
        OSError: the error to return to the caller.
    """
    first, second = (ctypes.c_int(each).value for each in arguments[:2])
    if call == _calls.kill and first <= 0:
        signal_group(os.getpgid(caller) if first == 0 else -first, second)
        return False
    if not is_ours(second if call in (_calls.setpriority, _calls.ioprio_set) else first):
        raise PermissionError(errno.EPERM, "a process of another container, or of the host")
    return True

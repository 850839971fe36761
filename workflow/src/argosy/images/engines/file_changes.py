"""Changes of a file besides its content that a confined program asks for: mode, times, extended attributes.

It is read from the caller's registers and memory. Standard library only.
"""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from argosy.images.engines.call_numbers import CALLS

_HERE, _NO_FOLLOW, _NOW = -100, 0x100, 0x3FFFFFFF
"""AT_FDCWD, AT_SYMLINK_NOFOLLOW, UTIME_NOW."""
_TIMES = struct.Struct("=4q")
"""Times of access and of change, each in seconds and nanoseconds."""
_LONGEST_PATH, _LONGEST_NAME, _LONGEST_VALUE = 4096, 256, 65536

_libc = ctypes.CDLL(None, use_errno=True)
_calls = CALLS.get(platform.machine(), CALLS["x86_64"])
_SET, _SET_LINK, _SET_OPEN, _REMOVE, _REMOVE_LINK, _REMOVE_OPEN = _calls.attributes


@dataclass(frozen=True)
class Change:
    """A change that a program asks for.

    Args:
        path: of the file; empty where it is open.
        descriptor: of the file, where it is open.
        follows: whether a symbolic link stands for what it leads to.
        mode: to set, if any.
        times: to set, as `_TIMES` has them, if any.
        attribute: to set or to remove, if any.
        value: of the attribute; None where it is removed.
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
        """Whether the times are the call's own, as programs ask that make a file if it is missing."""
        return bool(self.times) and self.times[1] == self.times[3] == _NOW

    def apply(self, path: str, modes: int) -> None:
        """Change the file that `path` leads to; of a mode, the bits `modes`.

        Raises:
            OSError: as the call.
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
    """Read what a call of `Calls.changing` or `Calls.attributes` asks for.

    Raises:
        OSError: EFAULT, ENAMETOOLONG, with which the call fails.
    """
    memory = Memory(caller)
    first, second, third, fourth, fifth, _ = arguments
    if call in (_calls.chmod, _calls.utime, _calls.utimes, _SET, _SET_LINK, _REMOVE, _REMOVE_LINK):
        path, descriptor = memory.path(first), _HERE
    elif call in (_calls.fchmod, _SET_OPEN, _REMOVE_OPEN):
        path, descriptor = "", ctypes.c_int(first).value
    else:
        # Without a path it is of the descriptor.
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
    """The memory of a process."""

    process: int

    def text(self, address: int, longest: int) -> str:
        """Return a text that ends with a zero byte.

        Raises:
            OSError: EFAULT or ENAMETOOLONG where there is none.
        """
        text, end, _ = self._read_memory(address, longest).partition(b"\0")
        if not end:
            raise OSError(errno.ENAMETOOLONG if text else errno.EFAULT, "no text")
        return os.fsdecode(text)

    def path(self, address: int) -> str:
        """Return a path that is not empty.

        Raises:
            OSError: as `text`, and ENOENT.
        """
        found = self.text(address, _LONGEST_PATH)
        if not found:
            raise OSError(errno.ENOENT, "an empty path")
        return found

    def content(self, address: int, size: int) -> bytes:
        """Return so many bytes.

        Raises:
            OSError: EFAULT where there are fewer.
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

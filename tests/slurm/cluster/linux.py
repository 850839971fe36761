"""The few system calls that Python 3.11 has no function for."""

import ctypes
import os
import signal
from pathlib import Path
from typing import Any

NEW_MOUNTS = 0x00020000
NEW_NAME = 0x04000000
NEW_IPC = 0x08000000
NEW_USER = 0x10000000
NEW_PIDS = 0x20000000
NEW_NETWORK = 0x40000000

_READ_ONLY = 1
_BIND = 1 << 12
_RECURSIVE = 1 << 14
_SLAVE = 1 << 19
_SET_PARENT_DEATH_SIGNAL = 1

_libc = ctypes.CDLL(None, use_errno=True)


def call(function: str, *arguments: Any) -> None:
    """Call a function of the C library that returns 0 when it went well.

    Raises:
        OSError: when it did not.
    """
    if getattr(_libc, function)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}{arguments}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Leave the namespaces in `flags` for new ones; of process ids, the next child does."""
    call("unshare", flags)


def set_namespace(descriptor: int) -> None:
    """Join the namespace behind an open file of /proc/PID/ns."""
    call("setns", descriptor, 0)


def own_mounts() -> None:
    """Keep mounts from here on to this namespace; the host's later ones still come in."""
    _mount("none", "/", None, _RECURSIVE | _SLAVE)


def bind(source: Path, target: Path) -> None:
    """Show `source` at `target`."""
    _mount(str(source), str(target), None, _BIND)


def overlay(upper: Path, lower: Path) -> None:
    """Show the files of `upper` besides those of `lower`, at `lower`, which nobody can write to."""
    _mount("overlay", str(lower), "overlay", _READ_ONLY, f"lowerdir={upper}:{lower}")


def mount_memory(target: Path) -> None:
    """An empty file system in memory that everybody may write to."""
    _mount("tmpfs", str(target), "tmpfs", 0, "mode=1777")


def mount_read_only(target: Path) -> None:
    """An empty file system that nobody can write to."""
    _mount("tmpfs", str(target), "tmpfs", _READ_ONLY)


def unmount(target: Path) -> None:
    """Take away the file system that lies uppermost at `target`."""
    call("umount", str(target).encode())


def mount_processes() -> None:
    """The processes of the caller's namespace in /proc."""
    _mount("proc", "/proc", "proc", 0)


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    call(
        "mount",
        source.encode(),
        target.encode(),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        options.encode(),
    )


def die_with_parent() -> None:
    """Be killed when the parent ends, however it ends."""
    call("prctl", _SET_PARENT_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)

"""Files that are whole, private, possible on a full disk, and never what a rank put in their place."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import stat
import tempfile
from typing import Any, Mapping

# Whom this node's files are kept from. A container engine may set an umask of its own: this is the job's.
UMASK = int(os.environ.get("ARGOSY_UMASK", "077"), 8)
FOLDER_MODE, _FILE_MODE = 0o777 & ~UMASK, 0o666 & ~UMASK
_FULL = (errno.ENOSPC, errno.EDQUOT)


def write_cause(error: OSError, path: str) -> str:
    """Return why a file could not be written, and what to do, in one line."""
    reason = os.strerror(error.errno).lower() if error.errno else str(error)
    if error.errno in _FULL:
        return f"{reason} while writing {path}: free space and run again"
    return f"{reason} while writing {path}"


def open_for_append(path: str) -> int:
    """Return a descriptor of a file that only the user, or whom ARGOSY_UMASK allows to, can read.

    Raises OSError, also for a link.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return _regular(os.open(path, flags, _FILE_MODE), path)


def open_regular(path: str) -> int:
    """Return a descriptor for reading. Raises OSError, also for what is no regular file."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return _regular(os.open(path, flags), path)


def _regular(descriptor: int, path: str) -> int:
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file", path)


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte, also to a pipe or terminal that someone made non-blocking."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            select.select([], [descriptor], [])


def write_json(path: str, value: Mapping[str, Any]) -> None:
    """Replace a JSON file at once: a reader sees the old content or the new, never a part."""
    folder, name = os.path.split(path)
    # O_EXCL and O_NOFOLLOW, by a name that ranks cannot guess.
    descriptor, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
    try:
        try:
            os.fchmod(descriptor, _FILE_MODE)
            write_all(descriptor, json.dumps(value, indent=1).encode() + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


class Reserve:
    """Space kept back on the disk, so that the last word can be written when it is full."""

    SIZE = 64 * 1024

    def __init__(self, path: str) -> None:
        self._path = path

    def take(self) -> None:
        """Occupy the space. Raises OSError."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o600)
        try:
            # Random, because some file systems store zeros in no space at all.
            write_all(descriptor, os.urandom(self.SIZE))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def drop(self) -> None:
        """Give the space back; more than once does no harm."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)

    def write_json(self, path: str, value: Mapping[str, Any]) -> None:
        """`write_json`, with the reserve to fall back on. Raises OSError."""
        try:
            write_json(path, value)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            self.drop()
            write_json(path, value)

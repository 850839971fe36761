"""The agent's own files: opened for appending, and written even if the disk is full."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import Any, Mapping

from ..contract.files import FILE_MODE, check_regular, write_all, write_json

_FULL = (errno.ENOSPC, errno.EDQUOT)


def write_cause(error: OSError, path: str) -> str:
    """Return the error of a failed write and its remedy, in one line."""
    reason = os.strerror(error.errno).lower() if error.errno else str(error)
    if error.errno in _FULL:
        return f"{reason} while writing {path}: free space and run again"
    return f"{reason} while writing {path}"


def open_for_append(path: str) -> int:
    """Open a file for appending, with the mode of ARGOSY_UMASK. Raises OSError, also for a link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return check_regular(os.open(path, flags, FILE_MODE), path)


class Reserve:
    """Disk space kept in reserve, so that the final status can be written to a full disk."""

    SIZE = 64 * 1024

    def __init__(self, path: str) -> None:
        self._path = path

    def take(self) -> None:
        """Allocate the space. Raises OSError."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o600)
        try:
            # Random, because some file systems allocate nothing for zeros.
            write_all(descriptor, os.urandom(self.SIZE))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def drop(self) -> None:
        """Free the space; may be called more than once."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)

    def write_json(self, path: str, value: Mapping[str, Any]) -> None:
        """Write a JSON file, freeing the reserve if the disk is full. Raises OSError."""
        try:
            write_json(path, value)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            self.drop()
            write_json(path, value)

"""Locks among the processes of one node. They go with their processes, also with those that are killed."""

import fcntl
import os
from pathlib import Path

from argosy.errors import ArgosyError

SHARED = fcntl.LOCK_SH
ALONE = fcntl.LOCK_EX


def take(path: Path, kind: int) -> int:
    """Return a descriptor that holds the lock until it is closed, here and where it was handed on.

    Raises:
        ArgosyError: when this file system has no locks.
    """
    while True:
        descriptor = _take(path, kind)
        assert descriptor is not None
        # Meanwhile the file may have been removed: then nobody else looks at this one.
        if _is_at(descriptor, path):
            return descriptor
        os.close(descriptor)


def take_at_once(path: Path, kind: int) -> int | None:
    """Return the same, or None when others hold the lock.

    Raises:
        ArgosyError: as `take`.
    """
    descriptor = _take(path, kind | fcntl.LOCK_NB)
    if descriptor is None or _is_at(descriptor, path):
        return descriptor
    os.close(descriptor)
    return None


def _take(path: Path, kind: int) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, kind)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError as problem:
        os.close(descriptor)
        raise ArgosyError(
            f"{path.parent}: no locks there ({problem.strerror})",
            "choose a folder of the node's own disk as images.folder in site.yaml",
        ) from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False

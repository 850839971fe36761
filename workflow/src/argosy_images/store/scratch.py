"""Create temporary folders, and remove the leftovers of killed processes.

A folder is locked (flock) while its process or a container of it lives. The kernel releases the lock at
exit, so a free lock marks a leftover. The name begins with the host's name, since on a shared file system
locks may be local to one host.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from argosy_common.disk import remove_tree


@contextmanager
def private_folder(place: Path | None = None) -> Iterator[tuple[Path, int]]:
    """Yield a temporary folder of this user and the descriptor of its lock; remove the folder afterwards.

    Args:
        place: the parent folder; None: the default for temporary files, where `sweep` looks.
    """
    folder, lock = _make(place)
    try:
        yield folder, lock
    finally:
        # A program may leave folders nested too deeply for any system call.
        with suppress(OSError):
            remove_tree(folder)
        os.close(lock)


def sweep() -> None:
    """Remove this user's leftover folders on this host."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            name = entry.name.removeprefix(_prefix())
            # The random part has no hyphen, but another host's name may begin with this one's.
            if name != entry.name and "-" not in name:
                with suppress(OSError):
                    _remove_left(Path(entry.path))


def _prefix() -> str:
    return f"argosy-{os.uname().nodename}-"


def _make(place: Path | None) -> tuple[Path, int]:
    # A sweep may remove the new folder before it is locked.
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_prefix(), dir=place))
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        except OSError:
            # This file system has no locks, so no sweep removes the folder.
            return folder, lock
        if folder.is_dir():
            return folder, lock
        os.close(lock)


def _remove_left(folder: Path) -> None:
    """Remove this user's folder if its lock is free.

    Raises:
        OSError: if the lock is held, or the path is no folder.
    """
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(folder)
    finally:
        os.close(lock)

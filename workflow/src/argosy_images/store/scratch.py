"""Temporary folders of a process, and the removal of those that killed ones left.

A folder is locked (flock) as long as its process, or a container of it, lives. The kernel gives the lock
back however they end, so a free lock says that nobody uses the folder any more. Its name begins with that
of the host, since locks on a shared file system may count on one host alone.
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
    """Make a temporary folder of this user alone, gone afterwards whatever happens, and its lock.

    Args:
        place: where to make it; None: where temporary files go, and `sweep` looks.
    """
    folder, lock = _make(place)
    try:
        yield folder, lock
    finally:
        # A program may leave folders that are deeper than any call takes.
        with suppress(OSError):
            remove_tree(folder)
        os.close(lock)


def sweep() -> None:
    """Remove the folders of this user on this host whose processes are gone."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            name = entry.name.removeprefix(_prefix())
            # The rest has no hyphen; another host's name may go on where ours ends.
            if name != entry.name and "-" not in name:
                with suppress(OSError):
                    _remove_left(Path(entry.path))


def _prefix() -> str:
    return f"argosy-{os.uname().nodename}-"


def _make(place: Path | None) -> tuple[Path, int]:
    # Somebody who sweeps may be quicker than we, and take it for one that was left.
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
            # No locks on this file system: nobody gets one, so nobody removes it.
            return folder, lock
        if folder.is_dir():
            return folder, lock
        os.close(lock)


def _remove_left(folder: Path) -> None:
    """Remove the folder if it is ours and nobody holds its lock.

    Raises:
        OSError: when somebody does, or it is not a folder.
    """
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(folder)
    finally:
        os.close(lock)

"""Room on a disk: a reserve is kept free from untrusted files, and trees of any mode are deleted."""

import errno
import os
import shutil
import time
from pathlib import Path

from argosy_common.units import amount

RESERVE = 256 << 20
LARGEST_RESERVE = 1 << 30
RESERVED_PERCENT = 5
"""The reserve: this share of the disk, within these bounds in bytes."""

BLOCK = 4096
"""Bytes that a file takes at least, be it empty or a folder."""

MOST_FILES_LEFT = 1000
"""Files left for others, if the file system counts its files."""

REMOVALS = 50
"""How often the removal of a tree begins anew when somebody else changes it."""
REMOVAL_PAUSE_S = 0.1
_CHANGED_MEANWHILE = (errno.ENOENT, errno.ENOTDIR, errno.ENOTEMPTY, errno.EEXIST, errno.EACCES)
"""EACCES: a mount of overlay that is just being made adds a folder without any permission."""


def check_room(folder: Path, size: int) -> None:
    """Raise OSError ENOSPC where `size` more bytes may not be written to the disk of a folder."""
    if why := why_no_room(folder, size):
        raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}: {why}", str(folder))


def why_no_room(folder: Path, size: int) -> str:
    """Say why `size` more bytes may not be written to the disk of a folder; empty when they may."""
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    kept = reserve(found)
    if max(size, BLOCK) > free - kept:
        return f"{amount(size)} do not fit, {amount(free)} are free, and {amount(kept)} stay so"
    if found.f_files and found.f_favail < MOST_FILES_LEFT:
        return "the file system can hold no more files"
    return ""


def reserve(found: os.statvfs_result) -> int:
    """Return the bytes of a disk that stay free."""
    share = found.f_blocks * found.f_frsize * RESERVED_PERCENT // 100
    return max(RESERVE, min(share, LARGEST_RESERVE))


def remove_tree(path: Path) -> None:
    """Delete a tree that may hold folders without permission to read or write, as images do.

    Raises:
        OSError: when it cannot be deleted.
    """
    for again in reversed(range(REMOVALS)):
        if not os.path.lexists(path):
            return
        try:
            try:
                _open_up(path)
                shutil.rmtree(path)
            except (RecursionError, OSError) as problem:
                if isinstance(problem, OSError) and problem.errno != errno.ENAMETOOLONG:
                    raise
                _remove_flat(path)
        except OSError as problem:
            # A process that was killed may not have come to its end yet.
            if problem.errno not in _CHANGED_MEANWHILE or not again:
                raise
            time.sleep(REMOVAL_PAUSE_S)


def _remove_flat(top: Path) -> None:
    """Delete a tree whose folders are too deep for paths and calls: each is moved up before it is read."""
    top.chmod(0o700)
    moved = 0
    while folders := _unlink_files(top):
        for folder in folders:
            for inner in _unlink_files(folder):
                while (place := top / str(moved)).exists():
                    moved += 1
                inner.rename(place)
            folder.rmdir()
    top.rmdir()


def _unlink_files(folder: Path) -> list[Path]:
    """Delete the files in a folder; the folders in it, made accessible."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            path = Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                path.chmod(0o700)
                found.append(path)
            else:
                path.unlink()
    return found


def _open_up(folder: Path) -> None:
    folder.chmod(0o700)
    with os.scandir(folder) as entries:
        inner = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    for path in inner:
        _open_up(Path(path))

"""Disk space: keep a reserve free of untrusted files, and delete trees with any permissions."""

import errno
import os
import shutil
import time
from pathlib import Path

from argosy_common.units import amount

RESERVE = 256 << 20
LARGEST_RESERVE = 1 << 30
RESERVED_PERCENT = 5
"""The reserve is this share of the disk, between these bounds in bytes."""

BLOCK = 4096
"""Minimum bytes per file, also for empty files and folders."""

MOST_FILES_LEFT = 1000
"""Number of files that others can still create, if the file system limits it."""

REMOVALS = 50
"""Attempts to remove a tree that another process changes."""
REMOVAL_PAUSE_S = 0.1
_CHANGED_MEANWHILE = (errno.ENOENT, errno.ENOTDIR, errno.ENOTEMPTY, errno.EEXIST, errno.EACCES)
"""EACCES: an overlay mount in progress adds a folder without any permission."""


def check_room(folder: Path, size: int) -> None:
    """Raise OSError ENOSPC if `size` more bytes would not fit on the folder's disk."""
    if why := why_no_room(folder, size):
        raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}: {why}", str(folder))


def why_no_room(folder: Path, size: int) -> str:
    """Return why `size` more bytes do not fit on the folder's disk; empty if they do."""
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    kept = reserve(found)
    if max(size, BLOCK) > free - kept:
        return (
            f"{amount(size)} do not fit: {amount(free)} are free, and {amount(kept)} stay reserved"
        )
    if found.f_files and found.f_favail < MOST_FILES_LEFT:
        return "the file system has no free inodes for more files"
    return ""


def reserve(found: os.statvfs_result) -> int:
    """Return the bytes of a disk that Argosy leaves free."""
    share = found.f_blocks * found.f_frsize * RESERVED_PERCENT // 100
    return max(RESERVE, min(share, LARGEST_RESERVE))


def remove_tree(path: Path) -> None:
    """Delete a tree, including folders that deny their owner access, as images have."""
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
            # A killed process may still be writing.
            if problem.errno not in _CHANGED_MEANWHILE or not again:
                raise
            time.sleep(REMOVAL_PAUSE_S)


def _remove_flat(top: Path) -> None:
    """Delete a tree too deep for paths or recursion: move each folder to the top before reading it."""
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
    """Delete the files in a folder; make its subfolders accessible and return them."""
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

"""Keeps a reserve of the disk free from untrusted files, which may unpack to any size."""

import errno
import os
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


def check_room(folder: Path, size: int) -> None:
    """Raise OSError ENOSPC where `size` more bytes may not be written to the disk of a folder."""
    if why := why_no_room(folder, size):
        raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}: {why}", str(folder))


def why_no_room(folder: Path, size: int) -> str:
    """Say why `size` more bytes may not be written to the disk of a folder; empty when they may."""
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    share = found.f_blocks * found.f_frsize * RESERVED_PERCENT // 100
    reserve = max(RESERVE, min(share, LARGEST_RESERVE))
    if max(size, BLOCK) > free - reserve:
        return f"{amount(size)} do not fit, {amount(free)} are free, and {amount(reserve)} stay so"
    if found.f_files and found.f_favail < MOST_FILES_LEFT:
        return "the file system can hold no more files"
    return ""

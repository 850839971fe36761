"""What trees take of the disk, where files have names in several of them.

A frozen image's files are second names of its layers' files. A file takes its room once, and gives it
back when the last of its names is gone.
"""

import os
import stat
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

BLOCK = 512

Inode = tuple[int, int]


@dataclass(frozen=True)
class File:
    """One file, or folder: the room it takes, all of its names, and those of them that were found."""

    size: int
    links: int
    found: int


Usage = Mapping[Inode, File]


def measure(tree: Path) -> Usage:
    """Return what is in a tree, which may vanish meanwhile; unreadable folders count for themselves."""
    files: dict[Inode, File] = {}
    folders = [str(tree)]
    try:
        _add(files, tree.stat())
    except OSError:
        return files
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    _add(files, entry.stat(follow_symlinks=False))
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except OSError:
            continue
    return files


def _add(files: dict[Inode, File], status: os.stat_result) -> None:
    inode = (status.st_dev, status.st_ino)
    # A folder's links are those of the folders in it.
    links = 1 if stat.S_ISDIR(status.st_mode) else status.st_nlink
    known = files[inode].found if inode in files else 0
    files[inode] = File(status.st_blocks * BLOCK, links, known + 1)


def total(usages: Iterable[Usage]) -> int:
    """Return the room that trees take together."""
    together: dict[Inode, int] = {}
    for usage in usages:
        together.update((inode, file.size) for inode, file in usage.items())
    return sum(together.values())


def freed(usages: Iterable[Usage]) -> int:
    """Return the room that is free when trees are gone: that of the files that have no name elsewhere."""
    found: Counter[Inode] = Counter()
    files: dict[Inode, File] = {}
    for usage in usages:
        for inode, file in usage.items():
            found[inode] += file.found
            files[inode] = file
    return sum(file.size for inode, file in files.items() if found[inode] >= file.links)

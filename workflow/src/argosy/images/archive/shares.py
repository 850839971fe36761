"""Shares a frozen tree out: each share of its files becomes a frame, which one worker unpacks."""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from argosy.images.archive.index import Folder

SHARE = 64 << 20
"""Bytes of a share; a larger file is one of its own."""

FILE_COST = 32 << 10
"""What making a file takes, in bytes that could be written meanwhile."""

PAGE = 4096
"""A file takes whole pages, on disk as in memory."""


@dataclass(frozen=True)
class Share:
    """Files of one frame, by their paths; `cost` is the work of unpacking them, in bytes."""

    names: tuple[str, ...]
    cost: int


@dataclass(frozen=True)
class Tree:
    """A frozen tree: its folders, the root first, its files in shares, and the room that it takes."""

    folders: tuple[Folder, ...]
    shares: tuple[Share, ...]
    size: int


@dataclass(frozen=True)
class File:
    """One file with all of its names, since a hard link is unpacked with what it leads to."""

    names: list[str]
    size: int


def read_tree(root: Path) -> Tree:
    """Return what is in the tree, shared out; the largest shares come first, since they take longest."""
    folders: list[Folder] = []
    files: dict[tuple[int, int], File] = {}
    for path, status in _walk(str(root), ""):
        if stat.S_ISDIR(status.st_mode):
            folders.append(Folder(path, stat.S_IMODE(status.st_mode), status.st_mtime_ns))
        # tar has no sockets, and nobody would listen at them.
        elif not stat.S_ISSOCK(status.st_mode):
            inode = (status.st_dev, status.st_ino)
            files.setdefault(inode, File([], status.st_size)).names.append(path)
    shares = sorted(share_out([*files.values()]), key=lambda share: -share.cost)
    content = sum(-(-file.size // PAGE) * PAGE for file in files.values())
    return Tree(tuple(folders), tuple(shares), content + PAGE * len(folders))


def share_out(files: Sequence[File]) -> Iterator[Share]:
    """Neighbours stay together, as far as a share holds them."""
    names: list[str] = []
    cost = 0
    for file in files:
        own = file.size + FILE_COST * len(file.names)
        if names and cost + own > SHARE:
            yield Share(tuple(names), cost)
            names, cost = [], 0
        names += file.names
        cost += own
    if names:
        yield Share(tuple(names), cost)


def _walk(folder: str, path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield all below a folder, and itself before that, by names, so that a tree gives the same shares."""
    yield path, os.stat(folder)
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        inner = f"{path}/{entry.name}" if path else entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path, inner)
        else:
            yield inner, entry.stat(follow_symlinks=False)

"""Makes one tree of several layers, the last one uppermost, without copying a file's content."""

import errno
import os
import shutil
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from argosy.images.layers import Layer, is_whiteout

Place = Callable[[str, str], None]
"""Puts a file at a new path."""

_CANNOT_LINK = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS)


def link(source: str, target: str) -> None:
    """A second name for the same file, or a copy where the file system has no such thing."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as problem:
        if problem.errno not in _CANNOT_LINK:
            raise
        copy(source, target)


def copy(source: str, target: str) -> None:
    """A file of its own, with the same content, mode and times."""
    if stat.S_ISFIFO(os.lstat(source).st_mode):
        os.mkfifo(target)
        shutil.copystat(source, target)
    else:
        shutil.copy2(source, target, follow_symlinks=False)


def flatten(layers: Sequence[Layer], root: Path, place: Place = link) -> None:
    """Make the tree that `layers` come to, from the lowest to the uppermost, in the new folder `root`.

    Raises:
        OSError: when the file system is full or not writable.
    """
    _merge([*reversed(layers)], "", root, place)


def _merge(layers: Sequence[Layer], path: str, target: Path, place: Place) -> None:
    """Make the folder `path` as the layers, uppermost first, all of which have it, come to."""
    target.mkdir(mode=0o700)
    for name, holders in _entries(layers, path).items():
        below = f"{path}/{name}" if path else name
        first = f"{holders[0].diff}/{below}"
        if stat.S_ISDIR(os.lstat(first).st_mode):
            _merge(holders, below, target / name, place)
        else:
            place(first, f"{target}/{name}")
    uppermost = layers[0].diff / path if path else layers[0].diff
    shutil.copystat(uppermost, target)


def _entries(layers: Sequence[Layer], path: str) -> dict[str, list[Layer]]:
    """Name to the layers that have part in it, uppermost first; more than one for folders alone."""
    found: dict[str, list[Layer]] = {}
    # Names of which nothing further down counts.
    closed: set[str] = set()
    for layer in layers:
        with os.scandir(layer.diff / path if path else layer.diff) as entries:
            for entry in entries:
                if entry.name in closed or _is_whiteout(entry):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    found.setdefault(entry.name, []).append(layer)
                    if (
                        layer.opaque
                        and (f"{path}/{entry.name}" if path else entry.name) in layer.opaque
                    ):
                        closed.add(entry.name)
                else:
                    # Below a folder it ends what the folder hides.
                    found.setdefault(entry.name, [layer])
                    closed.add(entry.name)
        closed |= layer.removed.get(path, frozenset())
    return found


def _is_whiteout(entry: os.DirEntry[str]) -> bool:
    known = entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)
    return not (known or entry.is_symlink()) and is_whiteout(entry.stat(follow_symlinks=False))

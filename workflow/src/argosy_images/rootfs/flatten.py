"""Merge layers, the last one uppermost, into one tree of hard links."""

import errno
import os
import shutil
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from argosy_common.disk import check_room, remove_tree
from argosy_images.rootfs.layers import BECOMES, Layer, is_whiteout
from argosy_images.rootfs.rooted import FROZEN

Place = Callable[[str, str], None]
"""Links or copies a file to a new path."""

ROOT_MODE = 0o755
"""Mode of an image's root folder. The folders of layers are private."""

_ENTER = stat.S_IRUSR | stat.S_IXUSR

_FOR_OTHERS = BECOMES | stat.S_IWGRP | stat.S_IWOTH

_CANNOT_LINK = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS)


def link(source: str, target: str) -> None:
    """Make a hard link, or a copy if the file system cannot link."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as problem:
        if problem.errno not in _CANNOT_LINK:
            raise
        copy(source, target)


def copy(source: str, target: str) -> None:
    """Copy a file or FIFO with its mode and times."""
    if stat.S_ISFIFO(os.lstat(source).st_mode):
        os.mkfifo(target)
        shutil.copystat(source, target)
    else:
        # Holes take space in a copy.
        check_room(Path(target).parent, os.lstat(source).st_size)
        shutil.copy2(source, target, follow_symlinks=False)


class Copies:
    """Copies files; hard links to one file become hard links to one copy."""

    def __init__(self) -> None:
        self._first: dict[tuple[int, int], str] = {}

    def place(self, source: str, target: str) -> None:
        """Copy a file, or link to its earlier copy."""
        status = os.lstat(source)
        first = target
        if status.st_nlink > 1:
            first = self._first.setdefault((status.st_dev, status.st_ino), target)
        if first == target:
            copy(source, target)
        else:
            os.link(first, target, follow_symlinks=False)


def link_frozen(source: str, target: str) -> None:
    """Link a file; copy it without setuid, setgid and write permission for others if its mode has these.

    Other users may read a shared frozen tree. They could change its files, or gain the owner's rights by a
    setuid program. Layers of earlier versions have setuid files on disk.
    """
    mode = os.lstat(source).st_mode
    if mode & _FOR_OTHERS and not stat.S_ISLNK(mode):
        copy(source, target)
        os.chmod(target, stat.S_IMODE(mode) & ~_FOR_OTHERS)
    else:
        link(source, target)


def flatten(
    layers: Sequence[Layer], root: Path, place: Place | None = None, *, frozen: bool = False
) -> None:
    """Merge `layers`, the lowest first, into the new folder `root`.

    Paths are strings, for speed with a hundred thousand files.

    Args:
        place: by default `link`, or `link_frozen` for a frozen tree.
        frozen: make the tree's folders read-only.

    Raises:
        OSError: if the file system is full or not writable.
    """
    if not layers:
        # An image without files.
        root.mkdir(mode=0o700)
        root.chmod(ROOT_MODE & (FROZEN if frozen else ~0))
        return
    parts = [_Part(layer, str(layer.diff), "") for layer in reversed(layers)]
    place = place or (link_frozen if frozen else link)
    _merge(parts, str(root), place, FROZEN if frozen else ~0)


def lay_over(layer: Layer, root: str) -> None:
    """Apply one more layer to the frozen tree `root`; raises as `flatten`."""
    _change(_Part(layer, str(layer.diff), ""), root)


@dataclass(frozen=True, slots=True)
class _Part:
    """A layer's part of a folder: its path on disk, and its path in the image."""

    layer: Layer
    folder: str
    path: str

    def below(self, name: str) -> "_Part":
        path = f"{self.path}/{name}" if self.path else name
        return _Part(self.layer, f"{self.folder}/{name}", path)


def _merge(parts: Sequence[_Part], target: str, place: Place, mask: int) -> None:
    """Merge the parts of a folder, uppermost first; `mask` limits folder modes."""
    os.mkdir(target, 0o700)
    folders: dict[str, list[_Part]] = {}
    # Names that hide the parts further down.
    closed: set[str] = set()
    for part in parts:
        _add(part, target, place, folders, closed)
    for name, holders in folders.items():
        _merge(holders, f"{target}/{name}", place, mask)
    _finish(target, parts[0], mask)


def _finish(target: str, model: "_Part", mask: int) -> None:
    """Copy mode and times of a part to its folder; the image's root gets ROOT_MODE.

    In a frozen tree the owner may enter each folder: in a container it is root, but without capabilities.
    """
    status = os.stat(model.folder)
    mode = stat.S_IMODE(status.st_mode) if model.path else ROOT_MODE
    os.chmod(target, (mode | _ENTER if mask == FROZEN else mode) & mask)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _add(
    part: _Part, target: str, place: Place, folders: dict[str, list[_Part]], closed: set[str]
) -> None:
    """Place the visible files of a part, and collect its folders."""
    with os.scandir(part.folder) as entries:
        for entry in entries:
            name = entry.name
            if name in closed:
                continue
            if entry.is_dir(follow_symlinks=False):
                below = part.below(name)
                folders.setdefault(name, []).append(below)
                if below.path in part.layer.opaque:
                    closed.add(name)
            elif not _is_whiteout(entry):
                closed.add(name)
                # Below a folder, a file only ends the merge.
                if name not in folders:
                    place(entry.path, f"{target}/{name}")
    closed |= part.layer.removed.get(part.path, frozenset())


def _is_whiteout(entry: os.DirEntry[str]) -> bool:
    known = entry.is_file(follow_symlinks=False) or entry.is_symlink()
    return not known and is_whiteout(entry.stat(follow_symlinks=False))


def _change(part: _Part, target: str) -> None:
    """Apply a layer's part to a folder of the tree."""
    os.chmod(target, 0o700)
    hidden = part.layer.removed.get(part.path, frozenset[str]())
    for name in os.listdir(target) if part.path in part.layer.opaque else hidden:
        _remove(f"{target}/{name}")
    with os.scandir(part.folder) as entries:
        for entry in entries:
            there = f"{target}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if os.path.islink(there) or not os.path.isdir(there):
                    _remove(there)
                    os.mkdir(there)
                _change(part.below(entry.name), there)
            elif not _is_whiteout(entry):
                _remove(there)
                link_frozen(entry.path, there)
    _finish(target, part, FROZEN)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        remove_tree(Path(path))
    elif os.path.lexists(path):
        os.unlink(path)

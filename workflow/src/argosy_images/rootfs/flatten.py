"""Makes one tree of several layers, the last one uppermost, without copying a file's content."""

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
"""Puts a file at a new path."""

ROOT_MODE = 0o755
"""Mode of an image's root folder. The layers' folders are closed to other users."""

_FOR_OTHERS = BECOMES | stat.S_IWGRP | stat.S_IWOTH

_CANNOT_LINK = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS)


def link(source: str, target: str) -> None:
    """Make a second name for the same file, or a copy where the file system has no such thing."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as problem:
        if problem.errno not in _CANNOT_LINK:
            raise
        copy(source, target)


def copy(source: str, target: str) -> None:
    """Make a file of its own, with the same content, mode and times."""
    if stat.S_ISFIFO(os.lstat(source).st_mode):
        os.mkfifo(target)
        shutil.copystat(source, target)
    else:
        # A hole takes room in a copy.
        check_room(Path(target).parent, os.lstat(source).st_size)
        shutil.copy2(source, target, follow_symlinks=False)


class Copies:
    """Copies files so that the names of one file become the names of one copy."""

    def __init__(self) -> None:
        self._first: dict[tuple[int, int], str] = {}

    def place(self, source: str, target: str) -> None:
        """Copy a file, or give a copy of it another name."""
        status = os.lstat(source)
        first = target
        if status.st_nlink > 1:
            first = self._first.setdefault((status.st_dev, status.st_ino), target)
        if first == target:
            copy(source, target)
        else:
            os.link(first, target, follow_symlinks=False)


def link_frozen(source: str, target: str) -> None:
    """Link as `link` does, but copy a file whose mode would give others something, without that.

    A frozen tree may be opened to others: they would change what all run, or run a setuid program with the
    rights of who built the image. Layers of earlier versions keep setuid on the disk.
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
    """Make the tree that `layers` come to, from the lowest to the uppermost, in the new folder `root`.

    Paths are strings here: there may be a hundred thousand, and builds wait for it.

    Args:
        place: `link`, or where the tree is frozen, `link_frozen`.
        frozen: folders are left without the permission to change them.

    Raises:
        OSError: when the file system is full or not writable.
    """
    if not layers:
        # An image without a file.
        root.mkdir(mode=0o700)
        root.chmod(ROOT_MODE & (FROZEN if frozen else ~0))
        return
    parts = [_Part(layer, str(layer.diff), "") for layer in reversed(layers)]
    place = place or (link_frozen if frozen else link)
    _merge(parts, str(root), place, FROZEN if frozen else ~0)


def lay_over(layer: Layer, root: str) -> None:
    """Change the frozen tree `root` to what it comes to with one more layer, and leave it frozen.

    Raises:
        OSError: as `flatten`.
    """
    _change(_Part(layer, str(layer.diff), ""), root)


@dataclass(frozen=True, slots=True)
class _Part:
    """A layer's part of a folder: its place on disk, and its path in the image."""

    layer: Layer
    folder: str
    path: str

    def below(self, name: str) -> "_Part":
        path = f"{self.path}/{name}" if self.path else name
        return _Part(self.layer, f"{self.folder}/{name}", path)


def _merge(parts: Sequence[_Part], target: str, place: Place, mask: int) -> None:
    """Make the folder that the parts, uppermost first, come to; `mask` is what its mode may have."""
    os.mkdir(target, 0o700)
    folders: dict[str, list[_Part]] = {}
    # Names of which nothing further down counts.
    closed: set[str] = set()
    for part in parts:
        _add(part, target, place, folders, closed)
    for name, holders in folders.items():
        _merge(holders, f"{target}/{name}", place, mask)
    _finish(target, parts[0], mask)


def _finish(target: str, model: "_Part", mask: int) -> None:
    """Give a folder the mode and times that it has in a part; an image's own folder gets ROOT_MODE."""
    status = os.stat(model.folder)
    os.chmod(target, (stat.S_IMODE(status.st_mode) if model.path else ROOT_MODE) & mask)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _add(
    part: _Part, target: str, place: Place, folders: dict[str, list[_Part]], closed: set[str]
) -> None:
    """Place the files of a part that nothing above hides, and note its folders."""
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
                # Below a folder it only ends what the folder hides.
                if name not in folders:
                    place(entry.path, f"{target}/{name}")
    closed |= part.layer.removed.get(part.path, frozenset())


def _is_whiteout(entry: os.DirEntry[str]) -> bool:
    known = entry.is_file(follow_symlinks=False) or entry.is_symlink()
    return not known and is_whiteout(entry.stat(follow_symlinks=False))


def _change(part: _Part, target: str) -> None:
    """Give a folder of the tree what the layer has there."""
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

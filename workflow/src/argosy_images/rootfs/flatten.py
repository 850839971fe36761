"""Merge layers, the last one uppermost, into one tree of hard links."""

import errno
import os
import shutil
import stat
from collections.abc import Callable, Sequence
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
    """Copy a file or FIFO with its mode and times; leave out a socket."""
    status = os.lstat(source)
    if stat.S_ISFIFO(status.st_mode):
        os.mkfifo(target)
        shutil.copystat(source, target)
    elif not stat.S_ISSOCK(status.st_mode):
        # Holes take space in a copy.
        check_room(Path(target).parent, status.st_size)
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


def flatten(layers: Sequence[Layer], root: Path, *, frozen: bool = False) -> None:
    """Merge `layers`, the lowest first, into the new folder `root`.

    Args:
        frozen: make folders read-only, and link files by `link_frozen`.

    Raises:
        OSError: if the file system is full or not writable.
    """
    root.mkdir(mode=0o700)
    # An image may have no layers.
    root.chmod(ROOT_MODE & (FROZEN if frozen else ~0))
    for layer in layers:
        lay_over(layer, root, frozen=frozen)


def lay_over(layer: Layer, root: Path, place: Place | None = None, *, frozen: bool = False) -> None:
    """Apply one more layer to the tree `root`; otherwise as `flatten`.

    Args:
        place: by default `link`, or `link_frozen` for a frozen tree.
    """
    place = place or (link_frozen if frozen else link)
    _Laying(layer, place, FROZEN if frozen else ~0).lay("", str(root))


class _Laying:
    """Applies a layer to a tree. Paths are strings, for speed with a hundred thousand files.

    Args:
        mask: limits the modes of folders.
    """

    def __init__(self, layer: Layer, place: Place, mask: int) -> None:
        self._layer = layer
        self._place = place
        self._mask = mask

    def lay(self, path: str, target: str, *, is_new: bool = False) -> None:
        """Apply the layer's folder `path` to the tree's folder `target`."""
        folder = f"{self._layer.diff}/{path}"
        there = set[str]() if is_new else self._cleared(path, target)
        with os.scandir(folder) as entries:
            found = [entry for entry in entries if _is_shown(entry)]
        for entry in found:
            below = f"{path}/{entry.name}" if path else entry.name
            self._lay_entry(entry, below, f"{target}/{entry.name}", entry.name in there)
        status = os.stat(folder)
        # The folders of layers are private, the image's root is not.
        mode = stat.S_IMODE(status.st_mode) if path else ROOT_MODE
        if self._mask == FROZEN:
            # In a container the owner is root, but without capabilities.
            mode |= _ENTER
        os.chmod(target, mode & self._mask)
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))

    def _cleared(self, path: str, target: str) -> set[str]:
        """Remove the files that the layer hides from a folder; return the names of the others."""
        os.chmod(target, 0o700)
        there = set(os.listdir(target))
        hidden = there if path in self._layer.opaque else self._layer.removed.get(path, ())
        for name in there.intersection(hidden):
            _remove(f"{target}/{name}")
            there.remove(name)
        return there

    def _lay_entry(self, entry: os.DirEntry[str], path: str, target: str, is_there: bool) -> None:
        is_folder = entry.is_dir(follow_symlinks=False)
        if is_there and not (is_folder and _is_folder(target)):
            _remove(target)
            is_there = False
        if not is_folder:
            self._place(entry.path, target)
            return
        if not is_there:
            os.mkdir(target, 0o700)
        self.lay(path, target, is_new=not is_there)


def _is_shown(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is in the image: no mark of a removed file, and no socket."""
    # stat takes long, and few entries need it.
    known = entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)
    if known or entry.is_symlink():
        return True
    status = entry.stat(follow_symlinks=False)
    return not (is_whiteout(status) or stat.S_ISSOCK(status.st_mode))


def _is_folder(path: str) -> bool:
    return stat.S_ISDIR(os.lstat(path).st_mode)


def _remove(path: str) -> None:
    if _is_folder(path):
        remove_tree(Path(path))
    else:
        os.unlink(path)

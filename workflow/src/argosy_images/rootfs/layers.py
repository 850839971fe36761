"""Layers: the changes of one build step to a root file system.

<store>/layers/<key>/
    layer.json   the step and the removed files; written last, so without it the layer is incomplete
    diff/        added and changed files, usable as the lower folder of an overlay

In `diff` a removed file is a character device 0:0, and a replaced folder has the attribute
`user.overlay.opaque`, as overlayfs requires. `layer.json` also lists both, for file systems that support
neither. Owners are not kept, since a user without root has only one id.
"""

import errno
import os
import stat
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

BECOMES = stat.S_ISUID | stat.S_ISGID

OPAQUE = "user.overlay.opaque"

DEEPEST = 200
"""Maximum depth of folders in an image: each open folder takes a descriptor."""

LONGEST_PATH = 3000
"""Maximum length of a folder's path in an image: with the store's path it must stay below 4 KiB."""


@dataclass(frozen=True)
class Change:
    """The changes of a layer besides the files in its `diff`.

    Args:
        removed: removed files and folders, relative to the root.
        opaque: folders of the diff that hide the folder of the same name in lower layers.
        entries: number of files, links and folders in the diff.
        size: bytes of its files.
        setuid: modes of setuid and setgid files in the image. On disk they have neither bit, which would
            give others the builder's rights.
    """

    removed: tuple[str, ...] = ()
    opaque: tuple[str, ...] = ()
    entries: int = 0
    size: int = 0
    setuid: Mapping[str, int] = field(default_factory=dict[str, int])

    def __bool__(self) -> bool:
        return bool(self.entries or self.removed or self.opaque)


@dataclass(frozen=True)
class Layer:
    """A finished layer on disk."""

    diff: Path
    change: Change = Change()

    @cached_property
    def removed(self) -> Mapping[str, set[str]]:
        """Names of removed files, by their folder."""
        removed = defaultdict[str, set[str]](set)
        for path in self.change.removed:
            folder, _, name = path.rpartition("/")
            removed[folder].add(name)
        return removed

    @cached_property
    def opaque(self) -> frozenset[str]:
        """Folders that hide the folders of lower layers."""
        return frozenset(self.change.opaque)

    def hides(self, path: str) -> bool:
        """Return whether this layer hides `path` of lower layers."""
        parts = path.split("/")
        for depth, name in enumerate(parts):
            folder = "/".join(parts[:depth])
            inner = f"{folder}/{name}" if folder else name
            if name in self.removed.get(folder, ()) or inner in self.opaque:
                return True
            place = self.diff / inner
            if os.path.lexists(place) and (place.is_symlink() or not place.is_dir()):
                return True
        return False


def find_below(layers: Sequence[Layer], path: str) -> Path | None:
    """Find the visible file or folder at `path` in `layers`, the uppermost first; None if there is none.

    No links are followed, since a link of an image may lead out of it.
    """
    names = path.split("/")
    for layer in layers:
        for depth in range(1, len(names)):
            found = status_of(layer.diff.joinpath(*names[:depth]))
            if found is None:
                break
            if not stat.S_ISDIR(found.st_mode):
                return None
        else:
            place = layer.diff / path
            found = status_of(place)
            if found and not stat.S_ISCHR(found.st_mode):
                return place
        if layer.hides(path):
            return None
    return None


def status_of(path: Path) -> os.stat_result | None:
    """Return the status of a file without following links; None if it is missing."""
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def too_deep(path: str) -> OSError:
    """Return the error for a path that is too deep or too long for an image."""
    why = f"more than {DEEPEST} folders deep, or longer than {LONGEST_PATH:,} characters"
    return OSError(errno.ENAMETOOLONG, why, path)


def check_depth(folder: str) -> None:
    """Raise OSError ENAMETOOLONG if a folder's path is too deep or too long for an image."""
    if folder.count("/") >= DEEPEST or len(folder) > LONGEST_PATH:
        raise too_deep(f"{folder[:100]}…")


def walk(folder: Path, below: str = "") -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield all entries below a folder with relative paths, sorted; folders precede their content.

    Raises as `check_depth`.
    """
    check_depth(below)
    with os.scandir(folder / below if below else folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        path = f"{below}/{entry.name}" if below else entry.name
        yield path, entry
        if entry.is_dir(follow_symlinks=False):
            yield from walk(folder, path)


def read_overlay(diff: Path) -> Change:
    """Read the change in an overlay's upper folder."""
    removed, opaque, entries, size = [], [], 0, 0
    for path, entry in walk(diff):
        status = entry.stat(follow_symlinks=False)
        if is_whiteout(status):
            removed.append(path)
            continue
        entries += 1
        if stat.S_ISDIR(status.st_mode) and is_opaque(entry.path):
            opaque.append(path)
        if stat.S_ISREG(status.st_mode):
            size += status.st_size
    return Change(tuple(removed), tuple(opaque), entries, size)


def take_setuid(diff: Path) -> dict[str, int]:
    """Remove setuid and setgid from the files of a layer; return their former modes by path."""
    found = {}
    for path, entry in walk(diff):
        mode = entry.stat(follow_symlinks=False).st_mode
        if mode & BECOMES and stat.S_ISREG(mode):
            found[path] = stat.S_IMODE(mode)
    # After the walk, so that all hard links of a file are found.
    for path, mode in found.items():
        (diff / path).chmod(mode & ~BECOMES)
    return found


def is_whiteout(status: os.stat_result) -> bool:
    """Return whether this is an overlay's mark of a removed file."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def mark_for_overlay(diff: Path, change: Change) -> bool:
    """Mark removals in `diff` for overlayfs; return False if the file system does not support them."""
    try:
        for path in change.removed:
            place = diff / path
            place.parent.mkdir(parents=True, exist_ok=True)
            os.mknod(place, stat.S_IFCHR, 0)
        for path in change.opaque:
            os.setxattr(diff / path, OPAQUE, b"y")
    except OSError:
        return False
    return True


def restore_marks(layer: Layer) -> None:
    """Mark removals in `diff` again: `cp -r`, rsync and tar lose the marks when they copy a store.

    Raises:
        OSError: if the file system does not support marks.
    """
    for folder, names in layer.removed.items():
        for path in (f"{folder}/{name}" if folder else name for name in names):
            if not os.path.lexists(layer.diff / path):
                _mark(layer, Change(removed=(path,)))
    for path in layer.opaque:
        if not is_opaque(str(layer.diff / path)):
            _mark(layer, Change(opaque=(path,)))


def _mark(layer: Layer, change: Change) -> None:
    """Mark one removal, and keep the time of its folder, which is part of the layer's digest."""
    [path] = (*change.removed, *change.opaque)
    folder = (layer.diff / path).parent
    before = folder.stat()
    if not mark_for_overlay(layer.diff, change):
        raise OSError(errno.EOPNOTSUPP, "cannot mark a removed file", str(layer.diff / path))
    os.utime(folder, ns=(before.st_atime_ns, before.st_mtime_ns))


def is_opaque(folder: str) -> bool:
    """Return whether an overlay's folder hides the folder below it."""
    try:
        return os.getxattr(folder, OPAQUE) == b"y"
    except OSError:
        return False

"""A step's layer: what it changed in a root file system.

<store>/layers/<key>/
    layer.json   what the step was and what it removed; written last: without it there is no layer
    diff/        the files that it added or changed, as the lower folder of an overlay

In `diff` a removed file is a character device 0:0 and a replaced folder has the attribute
`user.overlay.opaque`, as the kernel's overlay file system wants it; `layer.json` lists both, so that a
layer means the same where neither can be made. Owners are not kept: a user without root has one id to give.
"""

import errno
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

BECOMES = stat.S_ISUID | stat.S_ISGID

OPAQUE = "user.overlay.opaque"

DEEPEST = 200
"""Folders in folders that an image may have: each that is open takes a descriptor."""

LONGEST_PATH = 3000
"""Letters of a folder in an image: the store's own name comes before it, and the kernel ends at 4 KiB."""


@dataclass(frozen=True)
class Change:
    """The changes of a layer besides the files in its `diff`.

    Args:
        removed: paths relative to the root, gone from below; a removed folder takes all in it along.
        opaque: folders of the diff that hide the folder of the same name below.
        entries: how many files, links and folders the diff holds.
        size: bytes of its files.
        setuid: modes of the files that are setuid or setgid in the image, and on the disk are not: there
            they would give others the rights of who built the image.
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
    """A finished layer on disk: its files, the names it removed by the folder they were in, and the
    folders that hide those below them."""

    diff: Path
    removed: Mapping[str, frozenset[str]]
    opaque: frozenset[str]

    @classmethod
    def of(cls, diff: Path, change: Change) -> "Layer":
        """Return the layer with this diff and change."""
        removed: dict[str, set[str]] = {}
        for path in change.removed:
            folder, _, name = path.rpartition("/")
            removed.setdefault(folder, set()).add(name)
        by_folder = {folder: frozenset(names) for folder, names in removed.items()}
        return cls(diff, by_folder, frozenset(change.opaque))

    def hides(self, path: str) -> bool:
        """Return whether what lies below it at `path` cannot be seen through this layer."""
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
    """Return the file or folder that is seen at `path` through `layers`, the uppermost first.

    The way there is by real folders: links in an image may lead anywhere, out of it as well.
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
    """Return what is there itself, be it a link; None: nothing."""
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def too_deep(path: str) -> OSError:
    """Return what is raised for a path of more than `DEEPEST` folders."""
    why = f"more than {DEEPEST} folders deep, or longer than {LONGEST_PATH:,} letters"
    return OSError(errno.ENAMETOOLONG, why, path)


def check_depth(folder: str) -> None:
    """Raise OSError ENAMETOOLONG for the path of a folder that is too deep or too long for an image."""
    if folder.count("/") >= DEEPEST or len(folder) > LONGEST_PATH:
        raise too_deep(f"{folder[:100]}…")


def walk(folder: Path, below: str = "") -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Everything in a folder with its path relative to it; folders before what is in them, sorted.

    Raises:
        OSError: ENAMETOOLONG, as `check_depth`.
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
    """Return the change that an overlay's upper folder holds."""
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
    """Take setuid and setgid away from the files of a layer; return the modes that they had, by path.

    Names that are no text cannot be noted: these files lose them.
    """
    found = {}
    for path, entry in walk(diff):
        mode = entry.stat(follow_symlinks=False).st_mode
        if mode & BECOMES and stat.S_ISREG(mode):
            found[path] = stat.S_IMODE(mode)
    # Only then, or the second name of a file would be found without.
    for path, mode in found.items():
        (diff / path).chmod(mode & ~BECOMES)
    return {path: mode for path, mode in found.items() if path.isprintable()}


def is_whiteout(status: os.stat_result) -> bool:
    """Return whether this is how an overlay notes a removed file."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def mark_for_overlay(diff: Path, change: Change) -> bool:
    """Note in `diff` itself what was removed; False where this file system cannot hold such notes."""
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


def is_opaque(folder: str) -> bool:
    """Return whether an overlay's folder hides the one below it."""
    try:
        return os.getxattr(folder, OPAQUE) == b"y"
    except OSError:
        return False

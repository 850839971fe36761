"""Evict the least recently used images and data from a node's disk."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from argosy_common.disk import MOST_FILES_LEFT, remove_tree, reserve
from argosy_common.errors import FULL, ArgosyError
from argosy_common.units import amount
from argosy_images.staging.folder import NodeFolder


@dataclass(frozen=True)
class Need:
    """The space that an image or data needs on a disk.

    Args:
        what: "image" or "data", for messages.
        size: bytes.
        otherwise: the remedy if the space cannot be freed.
        files: number of files; if set, the disk keeps a reserve of bytes and files.
    """

    what: str
    size: int
    otherwise: str
    files: int | None = None

    def fits(self, folder: NodeFolder) -> bool:
        """Return whether the disk has the space now."""
        found = os.statvfs(folder.path)
        if self.files is None:
            return free(folder.path) >= self.size
        has_files = not found.f_files or found.f_favail - MOST_FILES_LEFT >= self.files
        return has_files and free(folder.path) - reserve(found) >= self.size

    def unmet(self, folder: NodeFolder) -> ArgosyError:
        """Return the error for a disk with too few free bytes or files."""
        found = os.statvfs(folder.path)
        files = f" and {found.f_favail} files" if found.f_files else ""
        needed, kept = amount(self.size), ""
        if self.files is not None:
            needed += f" and {self.files:,} files"
            kept = f", of which {amount(reserve(found))} and {MOST_FILES_LEFT:,} files stay free"
        return ArgosyError(
            f"{folder.path}: the {self.what} needs {needed}, but {os.uname().nodename} has "
            f"{amount(free(folder.path))}{files} free{kept}",
            f"free space there, choose another images.folder in site.yaml, or {self.otherwise}",
        )


def image_of(size: int) -> Need:
    """Return the need of an image."""
    return Need("image", size, "change images.stage")


def make_room(folder: NodeFolder, need: Need, kept: int, say: Callable[[str], None]) -> None:
    """Remove unused images and data until the need fits on the disk and into `kept` bytes.

    Raises:
        ArgosyError: with the sizes, if it does not fit.
    """
    if need.size > kept:
        raise ArgosyError(
            f"images.cache_size in site.yaml: it is {amount(kept)}, but this {need.what} needs "
            f"{amount(need.size)}",
            f"raise it, or {need.otherwise}",
        )
    taken = sum(image.size for image in folder.images())
    for image in folder.images():
        if taken + need.size <= kept and need.fits(folder):
            return
        room = image.size
        if folder.remove_if_unused(image):
            taken -= room
            say(f"removed the least recently used {image.what} ({amount(room)})")
    if taken + need.size > kept:
        raise ArgosyError(
            f"images.cache_size in site.yaml: it is {amount(kept)}, images and data in use on "
            f"{os.uname().nodename} take {amount(taken)}, and this {need.what} {amount(need.size)}",
            "raise it",
        )
    if not need.fits(folder):
        raise need.unmet(folder)


@contextmanager
def added(folder: NodeFolder, digest: str, need: Need) -> Iterator[Path]:
    """Yield the new path of an image's tree or data, which is in the folder after the block.

    Raises:
        ArgosyError: if the disk is full.
    """
    making = folder.making()
    try:
        # Inside `try`, since a signal may arrive as soon as the folder exists.
        making.mkdir(mode=0o700)
        yield making / "root"
        (making / "size").write_text(str(need.size), encoding="ascii")
        making.rename(folder.image(digest).path)
    except (OSError, ArgosyError) as problem:
        # tar reports a full disk by a message.
        is_full = isinstance(problem, OSError) and problem.errno in FULL
        if not (is_full or os.strerror(errno.ENOSPC) in str(problem)):
            raise
        raise need.unmet(folder) from None
    finally:
        remove_tree(making)


def free(folder: Path) -> int:
    """Return the bytes that this user may still write to the folder's disk."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize

"""Room on a node's disk: what nobody uses goes, the least recently used first."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from argosy_common.disk import MOST_FILES_LEFT, reserve
from argosy_common.errors import ArgosyError
from argosy_common.units import amount
from argosy_images.staging.folder import NodeFolder


@dataclass(frozen=True)
class Need:
    """The room that an image or data needs on a disk.

    Args:
        what: it is, in words.
        size: in bytes.
        otherwise: what to do where there can be none.
        files: how many, if the disk is to keep its reserve of bytes and files.
    """

    what: str
    size: int
    otherwise: str
    files: int | None = None

    def fits(self, folder: NodeFolder) -> bool:
        """Return whether it fits on the disk."""
        found = os.statvfs(folder.path)
        if self.files is None:
            return free(folder.path) >= self.size
        has_files = not found.f_files or found.f_favail - MOST_FILES_LEFT >= self.files
        return has_files and free(folder.path) - reserve(found) >= self.size

    def unmet(self, folder: NodeFolder) -> ArgosyError:
        """Return what is said when it does not fit; a disk may also have no room for more files."""
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
    """Remove what nobody uses until the need fits, on the disk and into `kept`.

    Raises:
        ArgosyError: with the sizes, when it does not; then nothing more could go.
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


def free(folder: Path) -> int:
    """Return bytes that this user may still write there."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize

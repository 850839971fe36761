"""Room for one more image on a node's disk: those that were used least recently go first."""

import os
from collections.abc import Callable

from argosy.errors import ArgosyError
from argosy.images.staging.folder import NodeFolder
from argosy.units import amount

REMEDY = "or choose another images.folder or images.stage in site.yaml"


def make_room(folder: NodeFolder, size: int, kept: int, say: Callable[[str], None]) -> None:
    """Remove images that nobody uses until `size` bytes more fit, on the disk and into `kept`.

    Raises:
        ArgosyError: with the sizes, when they do not; then nothing more could go.
    """
    if size > kept:
        raise ArgosyError(
            f"images.cache_size in site.yaml: it is {amount(kept)}, and this image takes {amount(size)}",
            "raise it, or choose another images.stage",
        )
    taken = sum(image.size for image in folder.images())
    for image in folder.images():
        if taken + size <= kept and free(folder) >= size:
            return
        room = image.size
        if folder.remove_if_unused(image):
            taken -= room
            say(f"removed an image that was not used for longest ({amount(room)})")
    if taken + size > kept:
        raise ArgosyError(
            f"images.cache_size in site.yaml: it is {amount(kept)}, images that are in use on "
            f"{os.uname().nodename} take {amount(taken)}, and this one {amount(size)}",
            "raise it",
        )
    if free(folder) < size:
        raise full(folder, size)


def free(folder: NodeFolder) -> int:
    """Return bytes that this user may still write there."""
    status = os.statvfs(folder.path)
    return status.f_bavail * status.f_frsize


def full(folder: NodeFolder, size: int) -> ArgosyError:
    """Return what is said when an image does not fit; a disk may also have no room for more files."""
    status = os.statvfs(folder.path)
    files = f" and {status.f_favail} files" if status.f_files else ""
    return ArgosyError(
        f"{folder.path}: the image takes {amount(size)}, and on {os.uname().nodename} there are "
        f"{amount(free(folder))}{files} left",
        f"free space there, {REMEDY}",
    )

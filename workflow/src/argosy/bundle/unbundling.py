"""Unpacks a bundle into a project, and its images into the project's store; runs nothing.

A bundle is untrusted input. Unsafe paths are refused, files are verified before they are moved into place,
and images are verified by their own digests.
"""

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from argosy.bundle.archive import BundledImage, BundleReader, Progress, reading
from argosy_common.disk import remove_tree, why_no_room
from argosy_common.errors import ArgosyError, some
from argosy_common.reading import open_regular
from argosy_common.units import amount
from argosy_images import ImageLock, Store, import_image

Say = Callable[[str], None]
_MOST_NAMED = 3
_PRIVATE = 0o700
_FILE, _PROGRAM = 0o644, 0o755
"""Modes as in a git checkout, since images are built from these files. The folder itself is private."""


def unbundle(file: Path, folder: Path, say: Say) -> list[str]:
    """Unpack the bundle `file` into a new or existing project `folder`.

    Existing files with the same content stay, so that an interrupted unpacking can continue.

    Returns:
        Lines about the result.

    Raises:
        ArgosyError: if the bundle is truncated, damaged, unsafe or of another version, or an existing file
            differs. Then `folder` stays unchanged.
    """
    with reading(file) as bundle, _temporary_beside(folder) as work:
        _check_room(bundle, work)
        say(f"unpacking {amount(bundle.size)}")
        images = bundle.description.images
        archives = {image.archive for image in images}
        files = [name for name in bundle.digests if name not in archives]
        project = work / "project"
        project.mkdir(_PRIVATE)
        _unpack(bundle, files, project, say)
        for image in images:
            _check_lock(bundle, image, project)
        missing = _missing(bundle, files, folder)
        with _made_folder(folder):
            taken = {image.name: _take_image(bundle, image, folder, work, say) for image in images}
        _put_in_place(missing, project, folder)
        for name in {*files}.intersection(bundle.description.executable):
            # Files unpacked earlier by unzip have lost their modes.
            (folder / name).chmod(_PROGRAM)
    sites = ", ".join(bundle.description.sites) or "no site"
    lines = [f"{folder}: {len(files):,} files, results of {sites}"]
    if without := ", ".join(name for name, is_there in taken.items() if not is_there):
        lines.append(f"image {without}: not in the bundle; the next snakemake builds or imports it")
    return lines


@contextmanager
def _temporary_beside(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder on the file system of `folder`, so that files can be renamed."""
    if _is_no_folder(folder):
        raise ArgosyError(f"{folder}: is not a folder", "name a new one")
    above = folder if folder.exists() else folder.absolute().parent
    if not above.is_dir():
        raise ArgosyError(f"{folder}: there is no folder {above}")
    temporary = Path(tempfile.mkdtemp(prefix=".unbundling.", dir=above))
    try:
        yield temporary
    finally:
        remove_tree(temporary)


@contextmanager
def _made_folder(folder: Path) -> Iterator[None]:
    """Create the folder; remove it again if the block fails."""
    if folder.exists():
        yield
        return
    folder.mkdir(_PRIVATE)
    try:
        yield
    except BaseException:
        remove_tree(folder)
        raise


def _check_room(bundle: BundleReader, folder: Path) -> None:
    if why := why_no_room(folder, bundle.size):
        raise ArgosyError(f"{bundle.title}: there is not enough space in {folder.parent}: {why}")


def _unpack(bundle: BundleReader, names: Sequence[str], folder: Path, say: Say) -> None:
    progress = Progress(bundle.size, say)
    executable = {*bundle.description.executable}
    for name in names:
        path = folder / name
        mode = _PROGRAM if name in executable else _FILE
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            raise ArgosyError(f"{bundle.title}: {name!r} is both a file and a folder") from None
        with os.fdopen(descriptor, "wb") as target:
            bundle.copy(name, target)
            progress.add(target.tell())


def _missing(bundle: BundleReader, names: Sequence[str], folder: Path) -> list[str]:
    """Return the names of missing files; raises ArgosyError if an existing file differs."""
    there = [name for name in names if os.path.lexists(folder / name)]
    others = [name for name in there if _digest(folder / name, folder) != bundle.digests[name]]
    within = {str(above) for name in names for above in PurePosixPath(name).parents}
    others += [name for name in sorted(within) if _is_no_folder(folder / name)]
    if others:
        said = "exists and differs" if len(others) == 1 else "exist and differ"
        raise ArgosyError(
            f"{folder}: {some(others, _MOST_NAMED)} {said} from the bundle",
            "unpack it into a new folder",
        )
    return sorted({*names} - {*there})


def _is_no_folder(path: Path) -> bool:
    """Return whether the path exists and is not a folder; a link counts as none."""
    return path.is_symlink() or (path.exists() and not path.is_dir())


def _digest(path: Path, top: Path) -> str | None:
    """Return the SHA-256 of a file; None if it is not a readable regular file."""
    try:
        with open_regular(path, top, sys.maxsize) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _check_lock(bundle: BundleReader, image: BundledImage, unpacked: Path) -> None:
    path = ImageLock.path_of(unpacked, image.name)
    if str(path.relative_to(unpacked)) not in bundle.digests:
        raise ArgosyError(f"{bundle.title}: contains no image.lock of {image.name}")
    lock = ImageLock.read(path)
    if (lock.name, lock.digest) != (image.name, image.digest):
        raise ArgosyError(f"{bundle.title}: its lock of {image.name} names another image")
    if image.archive is not None and image.archive not in bundle.digests:
        raise ArgosyError(f"{bundle.title}: contains no {image.archive}")


def _put_in_place(names: Sequence[str], unpacked: Path, folder: Path) -> None:
    """Move files into the project with one mtime, so that Snakemake finds no result outdated."""
    now = unpacked.stat().st_mtime
    for name in names:
        os.utime(unpacked / name, (now, now))
    for name in names:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (unpacked / name).rename(target)


def _take_image(
    bundle: BundleReader, image: BundledImage, folder: Path, work: Path, say: Say
) -> bool:
    """Import an image into the store; return whether it is there."""
    store = Store.of_project(folder)
    if store.root(image.digest).is_dir():
        return True
    if image.archive is None:
        return False
    say(f"importing the image {image.name}")
    archive = work / "image.oci.tar"
    with archive.open("wb") as target:
        bundle.copy(image.archive, target)
    # The bundle's lock, with the image's origin, replaces the one written here.
    taken = import_image(store, work, archive, image.name)
    if taken.digest != image.digest:
        raise ArgosyError(
            f"{bundle.title}: {image.archive} contains the image {taken.digest}, but its lock "
            f"names {image.digest}"
        )
    return True

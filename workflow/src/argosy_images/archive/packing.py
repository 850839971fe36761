"""Pack a frozen image into one file, atomically."""

import hashlib
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, BinaryIO, cast

import zstandard

from argosy_common.errors import ArgosyError
from argosy_common.files import replacing
from argosy_common.units import amount
from argosy_images.archive.unpacking import Folder, Frame, Index, read_index, verify, write_index
from argosy_images.namespaces import unhindered
from argosy_images.rootfs.archive import files_tar
from argosy_images.rootfs.layers import walk
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store

SHARE = 64 << 20
"""Maximum cost of a share, in bytes; a larger file is a share of its own."""

FILE_COST = 32 << 10
"""Cost of creating a file, in bytes that could be written in the same time."""

PAGE = 4096
"""Unit in which files take space, on disk and in memory."""


@dataclass(frozen=True)
class Share:
    """The paths of a frame's files, and the cost of unpacking them in bytes."""

    names: tuple[str, ...]
    cost: int


@dataclass(frozen=True)
class File:
    """A file with all its hard links, which must be unpacked together."""

    names: list[str]
    size: int


def read_tree(root: Path) -> tuple[list[Folder], list[Share], int]:
    """Return the folders of a tree, the shares of its files, and its size in bytes.

    The root is the first folder, and the largest share the first one, since it takes longest.
    """
    folders: list[Folder] = []
    files: dict[tuple[int, int], File] = {}
    # The walk is sorted, so that the shares are reproducible.
    below = ((path, entry.stat(follow_symlinks=False)) for path, entry in walk(root))
    for path, status in chain([("", root.stat())], below):
        if stat.S_ISDIR(status.st_mode):
            folders.append(Folder(path, stat.S_IMODE(status.st_mode), status.st_mtime_ns))
        # tar cannot store sockets, and no process would listen on them.
        elif not stat.S_ISSOCK(status.st_mode):
            inode = (status.st_dev, status.st_ino)
            files.setdefault(inode, File([], status.st_size)).names.append(path)
    shares = sorted(share_out([*files.values()]), key=lambda share: -share.cost)
    content = sum(-(-file.size // PAGE) * PAGE for file in files.values())
    return folders, shares, content + PAGE * len(folders)


def share_out(files: Sequence[File]) -> Iterator[Share]:
    """Group neighbouring files into shares of at most `SHARE`."""
    names: list[str] = []
    cost = 0
    for file in files:
        own = file.size + FILE_COST * len(file.names)
        if names and cost + own > SHARE:
            yield Share(tuple(names), cost)
            names, cost = [], 0
        names += file.names
        cost += own
    if names:
        yield Share(tuple(names), cost)


Say = Callable[[str], None]

LEVEL = 3
"""zstd's level; level 4 takes twice the time to save 5 % of the size."""

_CHUNK = 1 << 20


def pack_image(store: Store, lock: ImageLock, say: Say) -> Path:
    """Pack the image unless an undamaged packed file exists; return the file's path.

    Raises:
        ArgosyError: if the frozen image is missing or unreadable.
    """
    path = store.archive(lock.digest)
    packed = f"image {lock.name} {lock.digest[:19]} is packed in {path}"
    if not store.is_writable and _is_whole(path, lock.digest):
        say(packed)
        return path
    # Two names may stand for one image.
    with store.changing(lock.name), store.locked(f"pack-{lock.digest.replace(':', '-')}"):
        if _is_whole(path, lock.digest):
            say(packed)
            return path
        root = store.root(lock.digest)
        if not root.is_dir():
            raise ArgosyError(
                f"{root}: the image is missing", f"build it with: argosy image build {lock.name}"
            )
        say(f"packing image {lock.name}")
        _remove_partials(path)
        with replacing(path) as temporary:
            unhindered(lambda: _pack(root, lock.digest, temporary))
        # Processes of a killed packing may have made files meanwhile.
        _remove_partials(path)
        size = read_index(path, lock.digest, "").size
        say(f"{packed}: {amount(path.stat().st_size)} of {amount(size)}")
    return path


def _is_whole(path: Path, image: str) -> bool:
    try:
        verify(path, read_index(path, image, ""), "")
    except ArgosyError:
        return False
    return True


def _remove_partials(path: Path) -> None:
    """Remove the temporary files of killed packings. Requires the lock."""
    for partial in path.parent.glob(f".{path.name}.*"):
        partial.unlink()


def _pack(root: Path, image: str, target: Path) -> str:
    folders, shares, size = read_tree(root)
    with target.open("wb") as file:
        frames = [_write_frame(root, share, file) for share in shares]
        write_index(file, Index(image, size, tuple(folders), tuple(frames)))
    return ""


def _write_frame(root: Path, share: Share, file: BinaryIO) -> Frame:
    offset = file.tell()
    written = _Hashing(file)
    compressor = zstandard.ZstdCompressor(level=LEVEL, threads=-1, write_checksum=True)
    with files_tar(root, share.names) as stream:
        compressor.copy_stream(
            stream, cast(IO[bytes], written), read_size=_CHUNK, write_size=_CHUNK
        )
    return Frame(offset, file.tell() - offset, written.digest.hexdigest(), len(share.names))


class _Hashing:
    """Writes to a file and computes the digest of the written data."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return self._file.write(data)

"""Unpack an archive for ADD: into an empty folder first, then into the image as COPY does."""

import io
import stat
import subprocess
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import IO, BinaryIO

from argosy_common.disk import check_room, remove_tree, why_no_room
from argosy_images.interchange.streams import CHUNK, DAMAGE, decompressed
from argosy_images.rootfs.layers import DEEPEST
from argosy_images.rootfs.rooted import Folder, Names, Root, copy_file

_IMPLIED = 0o741
"""Mode that marks folders without an entry of their own in the archive."""

_LONGEST_QUOTED = 1000
"""Bytes of tar's output that a message quotes."""


class ArchiveError(Exception):
    """The archive cannot be unpacked; the message gives the reason."""


def unpack(archive: BinaryIO, aside: Path, root: Root, place: Names) -> None:
    """Put the files of an archive into the folder `place` of the image.

    Args:
        aside: a path in the store that does not exist yet.

    Raises:
        ArchiveError: if tar rejects the archive, or it is too large or too deep.
        OSError: if a file of the image is in the way, or the disk is full.
    """
    aside.mkdir(mode=0o700)
    try:
        files = aside / "files"
        files.mkdir()
        files.chmod(_IMPLIED)
        _run_tar(archive, files)
        root.make_folders(place).close()
        with Root(files) as source:
            _Laying(source, root).lay((), place)
    finally:
        remove_tree(aside)


def is_archive(content: BinaryIO) -> bool:
    """Return whether a file is a non-empty tar, compressed or not. Its name is ignored."""
    try:
        plain, block = _plain(content), b""
        while len(block) < tarfile.BLOCKSIZE and (
            more := plain.read(tarfile.BLOCKSIZE - len(block))
        ):
            block += more
        tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except DAMAGE:
        return False
    return True


def _plain(content: BinaryIO) -> IO[bytes]:
    """Open the decompressed content of a file from its start."""
    raw = io.FileIO(content.fileno(), closefd=False)
    raw.seek(0)
    return decompressed(raw)


def _run_tar(archive: BinaryIO, folder: Path) -> None:
    # tar keeps members inside the folder: absolute names lose their slash, `..` is skipped, and
    # symbolic links are made last. The folder is new, so it holds no other links.
    options = ["--no-same-owner", "--preserve-permissions", "--delay-directory-restore"]
    with (folder.parent / "said").open("w+b") as said:
        process = subprocess.Popen(
            ["tar", "--extract", "--file=-", *options],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=said,
            umask=0o777 & ~_IMPLIED,
        )
        assert process.stdin
        try:
            _feed(_plain(archive), process.stdin, folder)
            process.wait()
        finally:
            process.kill()
            process.wait()
        if process.returncode != 0:
            said.seek(0)
            lines = said.read(_LONGEST_QUOTED).decode(errors="backslashreplace").strip()
            raise ArchiveError((lines.splitlines() or ["tar failed"])[0])


def _feed(plain: IO[bytes], tar: IO[bytes], folder: Path) -> None:
    """Write the archive to tar while the disk keeps its reserve: it may unpack to any size."""
    # tar may stop reading before the end.
    with suppress(BrokenPipeError), tar:
        while chunk := _read_chunk(plain):
            if why := why_no_room(folder, len(chunk)):
                raise ArchiveError(why)
            tar.write(chunk)


def _read_chunk(plain: IO[bytes]) -> bytes:
    try:
        return plain.read(CHUNK)
    except DAMAGE as problem:
        raise ArchiveError(f"damaged or cut off: {problem}") from None


class _Laying:
    """Copies an unpacked archive into the image."""

    def __init__(self, source: Root, target: Root) -> None:
        self._source = source
        self._target = target
        # First names of files with several hard links, by inode.
        self._laid: dict[int, Names] = {}

    def lay(self, path: Names, place: Names) -> None:
        """Copy the content of a folder of the archive into a folder of the image."""
        if len(path) > DEEPEST:
            raise ArchiveError(f"more than {DEEPEST} folders deep")
        with self._source.folder(path) as source:
            with self._target.folder(place) as target:
                for name in source.names():
                    status = source.status(name)
                    if status and stat.S_ISDIR(status.st_mode):
                        below = self._folder_in(
                            target, (*place, name), stat.S_IMODE(status.st_mode)
                        )
                        self.lay((*path, name), below)
                    else:
                        self._lay_file(source, name, target, place)
            own = source.own_status()
            if stat.S_IMODE(own.st_mode) != _IMPLIED:
                # Last, since each new entry changes the folder's mtime.
                with self._target.folder(place) as target:
                    target.set_mode(stat.S_IMODE(own.st_mode))
                    target.set_own_times(own)

    def _folder_in(self, target: Folder, place: Names, mode: int) -> Names:
        """Return the image's folder for one of the archive; only a folder with an entry replaces a link."""
        there = self._target.resolve("/".join(place)) if mode == _IMPLIED else place
        if self._target.is_folder(there):
            return there
        target.remove(place[-1])
        check_room(self._target.path, 0)
        target.make_folder(place[-1], 0o755)
        return place

    def _lay_file(self, source: Folder, name: str, target: Folder, place: Names) -> None:
        status = source.status(name)
        number = status.st_ino if status and status.st_nlink > 1 else 0
        first = self._laid.get(number)
        if first is None:
            copy_file(source, name, target, name)
            if number:
                self._laid[number] = (*place, name)
            return
        target.remove(name)
        with self._target.folder(first[:-1]) as folder:
            target.make_second_name(name, folder, first[-1])

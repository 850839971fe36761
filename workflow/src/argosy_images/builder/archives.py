"""ADD of an archive: unpacked aside, in an empty folder, and then laid into the image as COPY would."""

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
"""Mode of folders that the archive has files in and no entry for, so that it says nothing about theirs."""

_LONGEST_QUOTED = 1000
"""Bytes of what tar says that stand in a message."""


class ArchiveError(Exception):
    """An archive that cannot be unpacked; the message says why."""


def unpack(archive: BinaryIO, aside: Path, root: Root, place: Names) -> None:
    """Put the files of an archive into the folder `place` of the image.

    Args:
        aside: a path of the store's where nothing is.

    Raises:
        ArchiveError: when tar refuses the archive, or it does not fit or is too deep.
        OSError: when the image holds what is in the way, or the disk is full.
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
    """Return whether a file is a tar, compressed or not, with something in it: its name says nothing."""
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
    """Return what is in a file, decompressed, from its begin on."""
    raw = io.FileIO(content.fileno(), closefd=False)
    raw.seek(0)
    return decompressed(raw)


def _run_tar(archive: BinaryIO, folder: Path) -> None:
    # tar itself refuses members that lead out of the folder: absolute names lose their slash, `..`
    # is skipped, and symbolic links are made last. Nothing else is there that could be a link.
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
    """Give tar the archive, as long as the disk keeps its reserve: it may unpack to any size."""
    # tar may have had enough before the end.
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
    """One archive under way from its own folder to the image."""

    def __init__(self, source: Root, target: Root) -> None:
        self._source = source
        self._target = target
        # Places of files with several names, by inode.
        self._laid: dict[int, Names] = {}

    def lay(self, path: Names, place: Names) -> None:
        """Lay what is in a folder of the archive into one of the image."""
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
                # At the end, as what is put into a folder changes its time.
                with self._target.folder(place) as target:
                    target.set_mode(stat.S_IMODE(own.st_mode))
                    target.set_own_times(own)

    def _folder_in(self, target: Folder, place: Names, mode: int) -> Names:
        """Return the image's folder for one of the archive; only an entry of its own replaces a link."""
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

"""Read the files of image archives and folders, which are untrusted."""

import hashlib
import io
import json
import os
import posixpath
import tarfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any

from argosy_common.disk import why_no_room
from argosy_common.errors import ArgosyError
from argosy_common.units import amount
from argosy_images.interchange.members import LONGEST_QUOTED, Tar, write
from argosy_images.interchange.streams import (
    CHUNK,
    DAMAGE,
    Say,
    Seldom,
    decompressed,
    explain_damage,
)


class Keeper:
    """Extracts the members of an archive that is compressed as a whole.

    Layers are seldom read in the archive's order, and going back would decompress it again.
    """

    def __init__(self, path: Path, packed: IO[bytes], folder: Path, say: Say) -> None:
        self._path = path
        self._packed = packed
        self._folder = folder
        self._say = Seldom(say)
        self._size = os.fstat(packed.fileno()).st_size
        folder.mkdir(mode=0o700)

    def keep(self, tar: Tar, member: tarfile.TarInfo) -> Path:
        """Extract the member that was read last, and return its file.

        Raises:
            ArgosyError: if the disk is full.
        """
        place = self._folder / str(member.offset)
        member.mode = 0o600
        try:
            if why := why_no_room(self._folder, member.size):
                raise OSError(why)
            write(tar, member, place, self._tell)
        except OSError as problem:
            if isinstance(problem, DAMAGE):
                raise
            name = member.name[:LONGEST_QUOTED]
            raise ArgosyError(f"{self._path}: {name!r}: {problem.strerror or problem}") from None
        return place

    def _tell(self) -> None:
        done = amount(self._packed.tell())
        self._say(f"{self._path}: {done} of {amount(self._size)} decompressed")


LONGEST_DESCRIPTION = 4 << 20
"""Bytes of a manifest or configuration; real ones have some thousand."""

MOST_FILES = 10_000
"""Members of an archive: descriptions and layers."""

PLAIN_TREE = (
    "if it holds the files of a system, as of docker export, write a Containerfile with "
    "FROM scratch and ADD FILE /"
)
"""Hint for an archive without an image."""

_SQUASHFS = b"hsqs"


class Archive(ABC):
    """An open archive: a file or a folder.

    Args:
        title: prefix of messages.
        name: the default name of its image.
    """

    def __init__(self, title: str, name: str) -> None:
        self.title = title
        self.name = name

    @abstractmethod
    def __contains__(self, name: str) -> bool: ...

    @abstractmethod
    def open(self, name: str) -> AbstractContextManager[IO[bytes]]:
        """Open a file of the archive.

        Raises:
            ArgosyError: if it is missing.
        """

    def read(self, name: str, digest: str | None = None) -> Any:
        """Read a JSON file.

        Raises:
            ArgosyError: if it is missing, invalid, too long or has another digest.
        """
        try:
            with self.open(name) as stream:
                content = stream.read(LONGEST_DESCRIPTION + 1)
        except DAMAGE as problem:
            raise self.error(name, f"cannot be read: {explain_damage(problem)}") from None
        if len(content) > LONGEST_DESCRIPTION:
            raise self.error(name, f"is longer than {LONGEST_DESCRIPTION >> 20} MiB")
        if digest and f"sha256:{hashlib.sha256(content).hexdigest()}" != digest:
            raise self.error(name, f"is damaged: its digest is not {digest}")
        try:
            value = json.loads(content)
            # JSON allows lone surrogates, which cannot be written as UTF-8.
            json.dumps(value, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            raise self.error(name, "is not JSON") from None
        return value

    def error(self, name: str, problem: str) -> ArgosyError:
        """Return an error about one of its files."""
        return ArgosyError(f"{self.title}: {name[:LONGEST_QUOTED]!r} {problem}")


class TarArchive(Archive):
    """A tar archive.

    Args:
        keep: extract a member at once, for a tar that can be read only once.
    """

    def __init__(
        self,
        path: Path,
        tar: tarfile.TarFile,
        keep: Callable[[tarfile.TarInfo], Path] | None = None,
    ) -> None:
        super().__init__(str(path), path.name)
        self._tar = tar
        self._members: dict[str, tarfile.TarInfo] = {}
        self._kept: dict[int, Path] = {}
        for number, member in enumerate(tar):
            if number == MOST_FILES:
                raise ArgosyError(
                    f"{path}: not an image archive: more than {MOST_FILES:,} files", PLAIN_TREE
                )
            # Each has a copy of the global headers.
            member.pax_headers = {}
            self._members[_key(member.name)] = member
            # Unknown types have content, too; folders, links and other supported types have none.
            if keep and (member.isreg() or member.type not in tarfile.SUPPORTED_TYPES):
                self._kept[member.offset] = keep(member)

    def __contains__(self, name: str) -> bool:
        return _key(name) in self._members

    def open(self, name: str) -> IO[bytes]:
        """Open a file of the archive."""
        member = self._members.get(_key(name))
        if member and member.issym():
            # Docker stores a layer of two images once, and links to it.
            target = posixpath.join(posixpath.dirname(member.name), member.linkname)
            member = self._members.get(_key(target))
        elif member and member.islnk():
            member = self._members.get(_key(member.linkname))
        if member is None or not member.isreg():
            raise self.error(name, "is missing; was the archive cut off?")
        if member.offset in self._kept:
            return self._kept[member.offset].open("rb")
        stream = self._tar.extractfile(member)
        assert stream
        return stream


def _key(name: str) -> str:
    """Normalize a name, which may begin with `/` or `./`."""
    return posixpath.normpath(f"/./{name}")


class Folder(Archive):
    """An OCI image layout or an unpacked archive as a folder."""

    def __init__(self, path: Path, title: str | None = None) -> None:
        super().__init__(title or str(path), path.name)
        self._path = path

    def __contains__(self, name: str) -> bool:
        return self._file(name) is not None

    def open(self, name: str) -> IO[bytes]:
        """Open a file of the folder."""
        path = self._file(name)
        if path is None:
            raise self.error(name, "is missing")
        return path.open("rb")

    def _file(self, name: str) -> Path | None:
        """Return a regular file that lies in the folder, also after links are resolved."""
        place = self._path / name
        inside = place.resolve().is_relative_to(self._path.resolve())
        return place if inside and place.is_file() else None


class UdockerTag(Folder):
    """An image in udocker's folder: links to files that images share."""

    def _file(self, name: str) -> Path | None:
        place = self._path / name
        layers = next(
            (above / "layers" for above in self._path.parents if (above / "repos").is_dir()), None
        )
        shared = layers is not None and place.resolve().parent == layers.resolve()
        return place if shared and place.is_file() else super()._file(name)


@contextmanager
def opened(path: Path, work: Path, say: Say) -> Iterator[Archive]:
    """Open an archive or a folder.

    Args:
        work: a new folder for the members of an archive that is compressed as a whole.
        say: receives the progress of decompression every few seconds.

    Raises:
        ArgosyError: if it is damaged, cut off or no archive, also while it is read later.
    """
    try:
        if path.is_dir():
            yield UdockerTag(path) if (path / "TAG").is_file() else Folder(path)
            return
        if path.exists() and not path.is_file():
            # A pipe would block, and archives are not read from start to end.
            raise ArgosyError(f"{path}: not a regular file", "save the archive as a file")
        with path.open("rb", buffering=0) as stream:
            if stream.read(len(_SQUASHFS)) == _SQUASHFS:
                raise ArgosyError(
                    f"{path}: this is a SquashFS image, as of Singularity 2, enroot and Sarus, "
                    "without layers, and cannot be imported",
                    "import the image that "
                    "it was made from: argosy image import docker://REFERENCE NAME, or an archive of it "
                    "by podman save --format oci-archive, docker save or skopeo copy",
                )
            stream.seek(0)
            plain = decompressed(stream)
            with _reported_damage(path):
                if isinstance(plain, io.BufferedReader):
                    # Without the buffer, which each member would fill again.
                    stream.seek(0)
                    archive = TarArchive(path, Tar.open(fileobj=stream, mode="r:"))
                else:
                    keeper = Keeper(path, stream, work, say)
                    with Tar.open(fileobj=plain, mode="r|", bufsize=CHUNK) as tar:
                        archive = TarArchive(path, tar, lambda member: keeper.keep(tar, member))
            yield archive
    except OSError as problem:
        # gzip's own exceptions have no errno.
        if problem.errno and problem.filename is None:
            raise
        raise ArgosyError(f"{path}: {problem.strerror or problem}") from None


@contextmanager
def _reported_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except DAMAGE as problem:
        raise ArgosyError(
            f"{path}: {explain_damage(problem, 'damaged or cut off, or not an archive')}"
        ) from None

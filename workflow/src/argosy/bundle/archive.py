"""Reads and writes the archive of a bundle: a ZIP file in which every byte is verified.

ZIP has advantages over tar: no links or devices, random access, and support by RO-Crate tools. The ZIP
comment holds the digest of the checksums.
"""

import hashlib
import os
import re
import struct
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal

from pydantic import ValidationError, model_validator

from argosy.validation import Model, describe
from argosy_common.errors import ArgosyError
from argosy_common.units import amount
from argosy_images import Digest, ImageName

DESCRIPTION = "argosy-bundle.json"
CHECKSUMS = "manifest-sha256.txt"
"""Checksums in the format of sha256sum, so that `sha256sum --check` verifies an unpacked bundle."""
CRATE = "ro-crate-metadata.json"
SHOWN_HIDDEN = (".dockerignore", ".containerignore")
"""Hidden files that a bundle may have."""
BUNDLE_VERSION: Literal[1] = 1

_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


class BundledImage(Model):
    """An image of the study.

    Args:
        digest: the frozen image's digest, `sha256:…`.
        archive: the OCI archive in the bundle; None if only the digest was bundled.
    """

    name: ImageName
    digest: Digest
    archive: str | None


class BundleDescription(Model):
    """The content of argosy-bundle.json.

    Args:
        argosy: the version that wrote the bundle.
        created: time of writing in ISO 8601.
        sites: sites with results in the bundle.
        inputs: digest of the study's inputs by site.
        executable: names of executable files.
    """

    schema_version: Literal[1] = BUNDLE_VERSION
    argosy: str
    created: str
    sites: tuple[str, ...]
    inputs: dict[str, str | None]
    images: tuple[BundledImage, ...]
    executable: tuple[str, ...]

    @model_validator(mode="before")
    @classmethod
    def _without_former_key(cls, found: Any) -> Any:
        """Remove a key of older bundles."""
        if isinstance(found, dict):
            found.pop("redacted", None)
        return found


def checksum_lines(digests: Mapping[str, str]) -> str:
    """Return the content of the checksum file, from SHA-256 digests by name."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))


def read_checksums(bundle: str, content: bytes) -> dict[str, str]:
    """Parse a checksum file into SHA-256 digests by name; raises ArgosyError for other content.

    Args:
        bundle: the bundle's name, for messages.
        content: content of the checksum file.
    """
    digests: dict[str, str] = {}
    for line in content.decode("utf-8", "backslashreplace").splitlines():
        found = _LINE.fullmatch(line)
        if not found or found[2] in digests:
            raise ArgosyError(f"{bundle}: {CHECKSUMS}: not a line of checksums: {line[:80]!r}")
        digests[found[2]] = found[1]
    return digests


def read_description(bundle: str, text: bytes) -> BundleDescription:
    """Parse the description; raises ArgosyError if it is damaged or of another version."""
    try:
        return BundleDescription.model_validate_json(text)
    except ValidationError as problem:
        said = describe(problem, Path(bundle, DESCRIPTION), BundleDescription)
        raise ArgosyError(said, "use the version of Argosy that wrote the bundle") from None


WORD_S = 10.0
"""Seconds between two lines of progress, unless one file takes longer."""


class Progress:
    """Reports progress in bytes."""

    def __init__(self, total: int, say: Callable[[str], None]) -> None:
        self._total = total
        self._say = say
        self._done = 0
        self._spoke = time.monotonic()

    def add(self, size: int) -> None:
        """Add `size` bytes; print the progress if the last line is old."""
        self._done += size
        now = time.monotonic()
        if now - self._spoke > WORD_S:
            self._spoke = now
            self._say(f"{amount(self._done)} of {amount(self._total)}")


MOST_FILES = 2_000_000
MOST_TEXT_BYTES = 1 << 28
"""Size limit of checksums and description, more than MOST_FILES files need."""

_LONGEST_COMMENT = 128
_COMMENT = re.compile(rb"argosy bundle (\d{1,9}) sha256:([0-9a-f]{64})")
_CHUNK = 1 << 20
# The lowest level halves an image's size at disk speed.
_LEVEL = 1
_TIME = (1980, 1, 1, 0, 0, 0)
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_LONGEST_NAME, _LONGEST_PATH = 255, 3000
"""Limits in bytes of a path's part (NAME_MAX) and of a path, with room for the target folder's path."""
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, ValueError),
    *(EOFError, OSError, NotImplementedError, RuntimeError),
)


class BundleWriter:
    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._digests: dict[str, str] = {}

    @property
    def names(self) -> set[str]:
        """Names of the files written so far."""
        return {*self._digests}

    def add_file(self, name: str, source: IO[bytes]) -> int:
        """Add the rest of `source` as a file; return its bytes."""
        digest, size = hashlib.sha256(), 0
        with self._archive.open(_member(name), "w", force_zip64=True) as target:
            while chunk := source.read(_CHUNK):
                digest.update(chunk)
                size += target.write(chunk)
        self._digests[name] = digest.hexdigest()
        return size

    def add_text(self, name: str, text: str) -> None:
        self.add_file(name, BytesIO(text.encode()))

    def add_folder(self, name: str) -> None:
        """Add a folder entry, since readers of crates look for described folders."""
        member = zipfile.ZipInfo(f"{name}/", _TIME)
        member.external_attr = (0o40755 << 16) | 0x10
        self._archive.writestr(member, b"")

    def end(self) -> None:
        """Add the checksums of all files."""
        self.add_text(CHECKSUMS, checksum_lines(self._digests))
        digest = self._digests[CHECKSUMS]
        self._archive.comment = f"argosy bundle {BUNDLE_VERSION} sha256:{digest}".encode()


@contextmanager
def writing(path: Path) -> Iterator[BundleWriter]:
    """Yield the writer of a bundle at `path`."""
    with zipfile.ZipFile(
        path, "w", zipfile.ZIP_DEFLATED, allowZip64=True, compresslevel=_LEVEL
    ) as archive:
        writer = BundleWriter(archive)
        yield writer
        writer.end()


class BundleReader:
    """An open bundle whose list of files has been verified.

    Args:
        title: its name in messages.
    """

    def __init__(self, title: str, archive: zipfile.ZipFile) -> None:
        self.title = title
        self._archive = archive
        self._members = self._checked_members()
        self.digests = self._checksums()
        content = self._read_small(DESCRIPTION, self.digests.get(DESCRIPTION, ""))
        self.description = read_description(title, content)

    def copy(self, name: str, target: IO[bytes]) -> None:
        """Write a file's content to `target`; raises ArgosyError if its checksum differs."""
        digest = hashlib.sha256()
        for chunk in self._chunks(name):
            digest.update(chunk)
            target.write(chunk)
        if digest.hexdigest() != self.digests[name]:
            raise self._damaged(name)

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(self._members[name].file_size for name in self.digests)

    def _checked_members(self) -> dict[str, zipfile.ZipInfo]:
        infos = self._archive.infolist()
        if len(infos) > MOST_FILES:
            raise ArgosyError(f"{self.title}: contains more than {MOST_FILES:,} files")
        members: dict[str, zipfile.ZipInfo] = {}
        for info in infos:
            # ZipFile cuts names at a NUL.
            if info.orig_filename != info.filename or not is_safe(info.filename.removesuffix("/")):
                raise ArgosyError(f"{self.title}: contains a file named {info.orig_filename!r}")
            if info.is_dir():
                continue
            if info.compress_type not in _METHODS:
                raise ArgosyError(
                    f"{self.title}: {info.filename!r} uses an unsupported compression method"
                )
            if info.filename in members:
                raise ArgosyError(f"{self.title}: contains two files named {info.filename!r}")
            members[info.filename] = info
        return members

    def _checksums(self) -> dict[str, str]:
        found = _COMMENT.fullmatch(self._archive.comment)
        if not found:
            raise ArgosyError(
                f"{self.title}: is a ZIP file, but not an Argosy bundle",
                "make one with: argosy bundle FILE",
            )
        if int(found[1]) != BUNDLE_VERSION:
            raise ArgosyError(
                f"{self.title}: is a bundle of version {int(found[1])}; this Argosy reads "
                f"{BUNDLE_VERSION}",
                "use the version of Argosy that wrote it",
            )
        digests = read_checksums(self.title, self._read_small(CHECKSUMS, found[2].decode()))
        if differing := {*digests} ^ ({*self._members} - {CHECKSUMS}):
            raise ArgosyError(
                f"{self.title}: {min(differing)!r} is missing in the bundle or in its {CHECKSUMS}"
            )
        return digests

    def _read_small(self, name: str, digest: str) -> bytes:
        member = self._members.get(name)
        if member is None:
            raise ArgosyError(f"{self.title}: contains no {name}")
        if member.file_size > MOST_TEXT_BYTES:
            raise ArgosyError(f"{self.title}: {name} is larger than {amount(MOST_TEXT_BYTES)}")
        content = b"".join(self._chunks(name))
        if hashlib.sha256(content).hexdigest() != digest:
            raise self._damaged(name)
        return content

    def _chunks(self, name: str) -> Iterator[bytes]:
        """Yield a file's content, up to its declared size."""
        left = self._members[name].file_size
        try:
            with self._archive.open(name) as source:
                while left >= 0 and (chunk := source.read(_CHUNK)):
                    left -= len(chunk)
                    yield chunk
        except _DAMAGE as problem:
            raise _damage(self.title, name, problem) from None

    def _damaged(self, name: str) -> ArgosyError:
        return ArgosyError(f"{self.title}: {name} does not match its checksum", _AGAIN)


def is_bundle(path: Path) -> bool:
    """Return whether a regular file ends as a bundle does."""
    with path.open("rb") as file:
        file.seek(-min(path.stat().st_size, _LONGEST_COMMENT), os.SEEK_END)
        return bool(_COMMENT.search(file.read()))


@contextmanager
def reading(path: Path) -> Iterator[BundleReader]:
    """Yield the reader of a bundle.

    Raises:
        ArgosyError: if it is missing, truncated, damaged, unsafe or of another version.
    """
    try:
        archive = zipfile.ZipFile(path)
    except FileNotFoundError:
        raise ArgosyError(f"{path}: there is no such file") from None
    except _DAMAGE as problem:
        raise ArgosyError(f"{path}: is not a bundle, or is truncated ({problem})", _AGAIN) from None
    with archive:
        yield BundleReader(str(path), archive)


_AGAIN = "copy the bundle again"


def is_safe(name: str) -> bool:
    """Return whether a bundle may contain a file of this name: relative, visible and not too long."""
    path = PurePosixPath(name)
    return (
        bool(name)
        and name.isprintable()
        and str(path) == name
        and not path.is_absolute()
        and all(part[0] != "." or part in SHOWN_HIDDEN for part in path.parts)
        and all(len(part.encode()) <= _LONGEST_NAME for part in path.parts)
        and len(name.encode()) <= _LONGEST_PATH
    )


def _member(name: str) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, _TIME)
    member.compress_type = zipfile.ZIP_DEFLATED
    member.external_attr = 0o644 << 16
    return member


def _damage(title: str, name: str, problem: BaseException) -> ArgosyError:
    return ArgosyError(f"{title}: {name} is truncated or damaged ({problem})", _AGAIN)

"""Tars that somebody else made, and their members."""

import os
import re
import tarfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn, Self

LONGEST_HEADER = 1 << 20
"""Bytes of the headers that say more of one member: a long name, PAX records."""

MOST_CHAINED = 8
"""Headers before one member. GNU tar writes two, and one for the whole archive."""

MOST_GLOBAL = 1 << 16
"""Bytes of headers for all members that follow, which are kept as long as the tar is read."""

MOST_MEMBERS = 2_000_000
"""Of one tar; what is noted of them is kept until the end. Layers of large images have some 100,000."""

LONGEST_QUOTED = 1000
"""Letters of what an archive says that stand in a message."""

_NUMBER = re.compile(r"-?\d{1,12}(\.\d{1,12})?")


class Tar(tarfile.TarFile):
    """One that takes no more memory, stack or time for its headers than those of real images do."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._chained = self._chained_bytes = self._global_bytes = self._members = 0
        # The first header is read at once.
        super().__init__(*arguments, **{**options, "tarinfo": Member})

    def count(self, member: tarfile.TarInfo) -> None:
        """Count a header.

        Raises:
            tarfile.ReadError: when it is one too many, or cannot be.
        """
        if member.size < 0:
            raise tarfile.ReadError("it holds a header with a negative size")
        if member.type not in _HEADERS:
            self._chained = self._chained_bytes = 0
            self._members += 1
            if self._members > MOST_MEMBERS:
                raise tarfile.ReadError(f"it holds more than {MOST_MEMBERS:,} files")
            return
        self._chained += 1
        self._chained_bytes += member.size
        if member.type == tarfile.XGLTYPE:
            self._global_bytes += member.size
        if (
            max(self._chained_bytes, member.size) > LONGEST_HEADER
            or self._global_bytes > MOST_GLOBAL
        ):
            raise tarfile.ReadError("it holds a header that is too long")
        if self._chained > MOST_CHAINED:
            raise tarfile.ReadError(f"it holds more than {MOST_CHAINED} headers for one file")


class Member(tarfile.TarInfo):
    """One that is read with the limits of `Tar`, and is no sparse file."""

    def _proc_member(self, archive: Tar) -> Self:
        """Go on from a header, as of every member.

        `frombuf` is no place to look at headers: Pythons of 2026 do not call it for all of them.
        """
        archive.count(self)
        member: Self = super()._proc_member(archive)  # type: ignore[misc]
        # PAX records may have changed it.
        if member.size < 0:
            raise tarfile.ReadError("it holds a header with a negative size")
        if any(name.startswith("GNU.sparse.") for name in member.pax_headers):
            self._proc_sparse()
        return member

    def _proc_sparse(self, *arguments: object) -> NoReturn:
        """Refuse it: a few bytes would say that a file is as large as the disk, and layers have none."""
        raise tarfile.ReadError("it holds a sparse file, which layers do not")

    # As PAX has them, in three versions; the last one would be read beyond the end of the tar.
    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _proc_sparse


_HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


def write(
    archive: tarfile.TarFile,
    member: tarfile.TarInfo,
    place: Path,
    tell: Callable[[], None] | None = None,
) -> None:
    """Make the file of a member, where there is nothing; `tell` is called again and again meanwhile."""
    source = archive.extractfile(member)
    assert source
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(place, flags, 0o600), "wb") as target:
        while data := source.read(1 << 20):
            target.write(data)
            if tell:
                tell()
        if target.tell() != member.size:
            raise tarfile.ReadError("unexpected end of data")
    place.chmod(member.mode & 0o7777)


def moment_of(member: tarfile.TarInfo) -> int:
    """Return the time of change in nanoseconds, not rounded to what a float can hold."""
    text = member.pax_headers.get("mtime", "")
    if _NUMBER.fullmatch(text):
        value = int(Decimal(text) * 10**9)
    elif text or not abs(member.mtime) < 1 << 40:
        value = 0
    else:
        value = int(member.mtime) * 10**9
    return value if abs(value) < 1 << 62 else 0


def is_text(name: str) -> bool:
    """Return whether a name can stand in a description of ours."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True

"""Members of tars that somebody else made."""

import os
import re
import shutil
import tarfile
from decimal import Decimal
from pathlib import Path
from typing import Self

LONGEST_HEADER = 1 << 20

_NUMBER = re.compile(r"-?\d{1,12}(\.\d{1,12})?")


class Member(tarfile.TarInfo):
    """One that takes no more memory than headers of real images do."""

    def _proc_member(self, archive: tarfile.TarFile) -> Self:
        """Go on from a header, as of every member.

        `frombuf` is no place to look at headers: Pythons of 2026 do not call it for all of them.
        """
        if self.type == tarfile.GNUTYPE_SPARSE:
            raise tarfile.ReadError("it holds a sparse file, which layers do not")
        if self.type in _HEADERS and self.size > LONGEST_HEADER:
            raise tarfile.ReadError("it holds a header that is too long")
        member: Self = super()._proc_member(archive)  # type: ignore[misc]
        return member


_HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


def write(archive: tarfile.TarFile, member: tarfile.TarInfo, place: Path) -> None:
    """Make the file of a member, where there is nothing."""
    source = archive.extractfile(member)
    assert source
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(place, flags, 0o600), "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
        if target.tell() != member.size:
            raise tarfile.ReadError("unexpected end of data")
    place.chmod(member.mode & 0o7777)


def moment_of(member: tarfile.TarInfo) -> int:
    """The time of change in nanoseconds, not rounded to what a float can hold."""
    text = member.pax_headers.get("mtime", "")
    if _NUMBER.fullmatch(text):
        value = int(Decimal(text) * 10**9)
    elif text or not abs(member.mtime) < 1 << 40:
        value = 0
    else:
        value = int(member.mtime) * 10**9
    return value if abs(value) < 1 << 62 else 0


def is_text(name: str) -> bool:
    """Whether a name can stand in a description of ours."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True

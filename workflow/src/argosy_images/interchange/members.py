"""Read untrusted tars with limits for headers, members and sparse files."""

import os
import re
import tarfile
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from tarfile import nti  # type: ignore[attr-defined]
from typing import IO, Any, Self, cast

LONGEST_HEADER = 1 << 20
"""Bytes of one member's extension headers (long names, PAX records)."""

MOST_CHAINED = 8
"""Extension headers of one member. GNU tar writes two, and one for the whole archive."""

MOST_GLOBAL = 1 << 16
"""Bytes of global PAX headers, which stay in memory."""

MOST_MEMBERS = 2_000_000
"""Members of one tar, which stay in memory. Layers of large images have some 100,000."""

MOST_PIECES = 100_000
"""Pieces of one sparse file."""

LONGEST_QUOTED = 1000
"""Characters of untrusted text in a message."""

_NUMBER = re.compile(r"-?\d{1,12}(\.\d{1,12})?")


class ExcessError(tarfile.ReadError):
    """The tar exceeds a limit; it need not be damaged."""


class Tar(tarfile.TarFile):
    """A tar whose headers take limited memory, stack and time."""

    takes_sparse = False
    """Whether sparse files are allowed; a few bytes can describe one as large as a disk."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._chained = self._chained_bytes = self._global_bytes = self._members = 0
        # The constructor reads the first header.
        super().__init__(*arguments, **{**options, "tarinfo": Member})

    def next(self) -> tarfile.TarInfo | None:
        """Return the next member; None at the end.

        Raises:
            tarfile.ReadError: if the last member's content is cut off. tarfile itself would keep reading
                past the end of a stream, for as long as the header says.
        """
        source = _open_content(self)
        # The first member is read when the tar is opened, but not yet returned.
        is_first = self.firstmember is not None  # type: ignore[attr-defined]
        if isinstance(source, tarfile._Stream) and not is_first:  # type: ignore[attr-defined]
            while (left := self.offset - source.tell()) > 0:
                if not source.read(min(left, 1 << 20)):
                    raise tarfile.ReadError("unexpected end of data")
        return super().next()

    def count(self, member: tarfile.TarInfo) -> None:
        """Count a header.

        Raises:
            tarfile.ReadError: if it exceeds a limit or is invalid.
        """
        if member.size < 0:
            raise tarfile.ReadError("it contains a header with a negative size")
        if member.type not in _HEADERS:
            self._chained = self._chained_bytes = 0
            self._members += 1
            if self._members > MOST_MEMBERS:
                raise ExcessError(f"it contains more than {MOST_MEMBERS:,} files")
            return
        self._chained += 1
        self._chained_bytes += member.size
        if member.type == tarfile.XGLTYPE:
            self._global_bytes += member.size
        if (
            max(self._chained_bytes, member.size) > LONGEST_HEADER
            or self._global_bytes > MOST_GLOBAL
        ):
            raise ExcessError("it contains a header that is too long")
        if self._chained > MOST_CHAINED:
            raise ExcessError(f"it contains more than {MOST_CHAINED} headers for one file")


class LayerTar(Tar):
    """A layer's tar, which may have sparse files."""

    takes_sparse = True


class Member(tarfile.TarInfo):
    """A member of a `Tar`, which checks its limits."""

    def _proc_member(self, archive: Tar) -> Self:
        """Check a header, then process it.

        Overriding `frombuf` would not suffice: Python releases of 2026 do not call it for all headers.
        """
        archive.count(self)
        member: Self = super()._proc_member(archive)  # type: ignore[misc]
        # PAX records may have changed it.
        if member.size < 0:
            raise tarfile.ReadError("it contains a header with a negative size")
        is_sparse = member.sparse is not None or any(
            name.startswith("GNU.sparse.") for name in member.pax_headers
        )
        if is_sparse and not archive.takes_sparse:
            raise ExcessError("it contains a sparse file, which only layers may have")
        if is_sparse and not _has_order(member):
            raise tarfile.ReadError("it contains a sparse file that cannot be read")
        return member

    def _proc_sparse(self, archive: Tar) -> Self:
        """Read the pieces of a sparse file in GNU format; from the fifth on they are in further blocks."""
        pieces, goes_on, size = self._sparse_structs  # type: ignore[attr-defined]
        while goes_on:
            block = _next_block(archive)
            numbers = [nti(block[start : start + 12]) for start in range(0, 504, 12)]
            pieces += zip(numbers[::2], numbers[1::2], strict=True)
            _check_number(len(pieces))
            goes_on = block[504]
        self._note_pieces(archive, pieces)
        archive.offset = self.offset_data + self._block(self.size)  # type: ignore[attr-defined]
        self.size = size
        return self

    def _proc_gnusparse_10(self, member: Self, headers: object, archive: Tar) -> None:
        """Read the pieces of a sparse file in PAX 1.0 format: lines of numbers before its content."""
        numbers = _numbers(archive)
        number = next(numbers)
        _check_number(number)
        member._note_pieces(archive, [(next(numbers), next(numbers)) for _ in range(number)])

    def _note_pieces(self, archive: Tar, pieces: list[tuple[int, int]]) -> None:
        self.offset_data = _open_content(archive).tell()
        self.sparse = pieces  # type: ignore[assignment]


def pieces_of(member: tarfile.TarInfo) -> list[tuple[int, int]]:
    """Return begin and length of each piece of a file's content; between the pieces are holes."""
    if member.sparse is None:
        return [(0, member.size)]
    return [piece for piece in cast(list[tuple[int, int]], member.sparse) if piece[1]]


def _has_order(member: tarfile.TarInfo) -> bool:
    """Return whether a sparse file has a known format, and its pieces are in order and within its size."""
    end = 0
    for begin, length in pieces_of(member):
        if begin < end or length < 0:
            return False
        end = begin + length
    return member.sparse is not None and end <= member.size


def _check_number(pieces: int) -> None:
    if pieces > MOST_PIECES:
        raise ExcessError(f"it contains a sparse file of more than {MOST_PIECES:,} pieces")


def _numbers(archive: Tar) -> Iterator[int]:
    """Yield numbers from lines of one number each; read whole blocks."""
    lines: list[bytes] = []
    rest = b""
    while True:
        while not lines:
            *lines, rest = (rest + _next_block(archive)).split(b"\n")
            if len(rest) > tarfile.BLOCKSIZE:
                raise tarfile.ReadError("it contains a sparse file without a map of its pieces")
        yield int(lines.pop(0))


def _open_content(archive: Tar) -> IO[bytes]:
    return cast(IO[bytes], archive.fileobj)


def _next_block(archive: Tar) -> bytes:
    block = _open_content(archive).read(tarfile.BLOCKSIZE)
    if len(block) < tarfile.BLOCKSIZE:
        raise tarfile.ReadError("unexpected end of data")
    return block


_HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


def write(
    archive: Tar,
    member: tarfile.TarInfo,
    place: Path,
    tell: Callable[[], None] | None = None,
) -> None:
    """Write a member to the new file `place`; call `tell` after each chunk."""
    source = _open_content(archive)
    source.seek(member.offset_data)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(place, flags, 0o600), "wb") as target:
        if member.sparse is not None and member.size:
            # Allocate holes now, so that they cannot fill the disk later.
            os.posix_fallocate(target.fileno(), 0, member.size)
        for begin, length in pieces_of(member):
            target.seek(begin)
            left = length
            while left:
                data = source.read(min(left, 1 << 20))
                if not data:
                    raise tarfile.ReadError("unexpected end of data")
                left -= target.write(data)
                if tell:
                    tell()
    place.chmod(member.mode & 0o7777)


def moment_of(member: tarfile.TarInfo) -> int:
    """Return the mtime in nanoseconds, without the rounding of a float."""
    text = member.pax_headers.get("mtime", "")
    if _NUMBER.fullmatch(text):
        value = int(Decimal(text) * 10**9)
    elif text or not abs(member.mtime) < 1 << 40:
        value = 0
    else:
        value = int(member.mtime) * 10**9
    return value if abs(value) < 1 << 62 else 0

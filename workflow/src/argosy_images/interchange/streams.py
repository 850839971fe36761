"""Streams that say afterwards what went through them, compressed in any of the ways of layers or not."""

import bz2
import gzip
import hashlib
import io
import lzma
import tarfile
import time
import zlib
from collections.abc import Callable
from typing import IO, cast

from zstandard import ZstdDecompressor, ZstdError

from argosy_images.interchange.members import ExcessError

SAY_EVERY_S = 5.0

Say = Callable[[str], None]


def silent(line: str) -> None:
    """Say nothing."""


class Seldom:
    """Passes on a line every few seconds, and drops those between."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._said = time.monotonic()

    def __call__(self, line: str) -> None:
        """Say the line, if the last one was long enough ago."""
        if time.monotonic() - self._said >= SAY_EVERY_S:
            self._said = time.monotonic()
            self._say(line)


CHUNK = 1 << 20

DAMAGE = (
    *(tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error, ZstdError),
    *(ValueError, OverflowError),
)
"""Exceptions that reading a damaged archive raises."""


def told(problem: Exception, otherwise: str = "damaged or cut off") -> str:
    """Return what is wrong by one of DAMAGE: too much is asked for, or else `otherwise`."""
    text = str(problem) or type(problem).__name__
    # Messages of the libraries of xz and zstd.
    is_excess = isinstance(problem, ExcessError) or "memory" in text.lower()
    return text if is_excess else f"{otherwise}: {text}"


MOST_AFTER_END = 64 << 20
"""Bytes of padding after a tar: compressed, they might go on for hours."""

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPED = tuple(bytes([first]) + b"\x2a\x4d\x18" for first in range(0x50, 0x60))
"""Begin frames without content, which pzstd writes first."""
XZ = b"\xfd7zXZ\0"
BZIP2 = b"BZh"

MOST_MEMORY = 256 << 20
"""Bytes that decompression by xz may take; `xz -9` asks for 65 MiB, a hostile header for 4 GiB."""


class Hashing(io.RawIOBase):
    """Passes on what is read, and knows its digest."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._digest = hashlib.sha256()

    def readable(self) -> bool:
        """Return True, as a file does."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Read as a file does."""
        data = self._source.read(len(buffer))
        buffer[: len(data)] = data
        self._digest.update(data)
        return len(data)

    def drain(self, most: int | None = None) -> str:
        """Read what is left; the digest of all, `sha256:…`.

        Raises:
            ExcessError: when more than `most` bytes are left.
        """
        left = 0
        while data := self.read(CHUNK):
            left += len(data)
            if most is not None and left > most:
                raise ExcessError(f"more than {most >> 20} MiB follow its end")
        return f"sha256:{self._digest.hexdigest()}"


_Begin = Callable[[], lzma.LZMADecompressor | bz2.BZ2Decompressor]


class _Decompressed:
    """The content of a stream by xz or bzip2, of which several may follow each other."""

    def __init__(self, source: IO[bytes], begin: _Begin) -> None:
        self._source = source
        self._begin = begin
        self._decompressor = begin()

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes; none at the end.

        Raises:
            EOFError: when the stream is damaged or cut off, or takes too much memory.
        """
        data = b""
        while not data:
            if not self._decompressor.eof:
                packed = self._source.read(CHUNK) if self._decompressor.needs_input else b""
                if self._decompressor.needs_input and not packed:
                    raise EOFError("its compressed data has no end")
            elif packed := self._next_stream():
                self._decompressor = self._begin()
            else:
                return b""
            try:
                data = self._decompressor.decompress(packed, size)
            except (lzma.LZMAError, OSError) as problem:
                raise EOFError(str(problem)) from None
        return data

    def _next_stream(self) -> bytes:
        """Return the first bytes of what follows a stream but for zeros, which may come after xz's."""
        packed = self._decompressor.unused_data.lstrip(b"\0")
        while not packed and (more := self._source.read(CHUNK)):
            packed = more.lstrip(b"\0")
        return packed


def decompressed(source: io.RawIOBase) -> IO[bytes]:
    """Return the content of a stream that is compressed by gzip, zstd, xz or bzip2, or not at all.

    To read it raises one of DAMAGE when it is damaged. Where zstd's is cut off, it may just end early.
    """
    buffered = io.BufferedReader(source, CHUNK)
    begin = buffered.peek(len(XZ))
    if begin.startswith(GZIP):
        return cast(IO[bytes], gzip.GzipFile(fileobj=buffered, mode="rb"))
    if begin.startswith((ZSTD, *_ZSTD_SKIPPED)):
        plain = ZstdDecompressor().stream_reader(buffered, read_size=CHUNK, read_across_frames=True)
        return cast(IO[bytes], plain)
    if begin.startswith(XZ):
        by_xz = _Decompressed(buffered, lambda: lzma.LZMADecompressor(memlimit=MOST_MEMORY))
        return cast(IO[bytes], by_xz)
    if begin.startswith(BZIP2):
        return cast(IO[bytes], _Decompressed(buffered, bz2.BZ2Decompressor))
    return buffered

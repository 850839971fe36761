"""Decompress and hash the streams of layers."""

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
    """Ignore a message."""


class Seldom:
    """Forwards a message at most every few seconds, and drops the others."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._said = time.monotonic()

    def __call__(self, line: str) -> None:
        """Forward the line, unless the last one was too recent."""
        if time.monotonic() - self._said >= SAY_EVERY_S:
            self._said = time.monotonic()
            self._say(line)


CHUNK = 1 << 20

DAMAGE = (
    *(tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error, ZstdError),
    *(ValueError, OverflowError),
)
"""Exceptions that reading a damaged archive raises."""


def explain_damage(problem: Exception, prefix: str = "damaged or cut off") -> str:
    """Describe one of DAMAGE: the exceeded limit, or else `prefix` and the cause."""
    text = str(problem) or type(problem).__name__
    # The xz and zstd libraries report exceeded memory only in their messages.
    is_excess = isinstance(problem, ExcessError) or "memory" in text.lower()
    return text if is_excess else f"{prefix}: {text}"


MOST_AFTER_END = 64 << 20
"""Bytes of padding after a tar; compressed padding could take hours to read."""

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPED = tuple(bytes([first]) + b"\x2a\x4d\x18" for first in range(0x50, 0x60))
"""First bytes of skippable frames, which pzstd writes first."""
XZ = b"\xfd7zXZ\0"
BZIP2 = b"BZh"

MOST_MEMORY = 256 << 20
"""Memory limit for xz, in bytes; `xz -9` needs 65 MiB, a hostile header requests 4 GiB."""


class Hashing(io.RawIOBase):
    """Forwards a stream and computes its digest."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._digest = hashlib.sha256()

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Read into `buffer`; return the number of bytes."""
        data = self._source.read(len(buffer))
        buffer[: len(data)] = data
        self._digest.update(data)
        return len(data)

    def drain(self, most: int | None = None) -> str:
        """Read the rest; return the digest of the whole stream, `sha256:…`.

        Raises:
            ExcessError: if more than `most` bytes are left.
        """
        left = 0
        while data := self.read(CHUNK):
            left += len(data)
            if most is not None and left > most:
                raise ExcessError(f"more than {most >> 20} MiB follow its end")
        return f"sha256:{self._digest.hexdigest()}"


_Begin = Callable[[], lzma.LZMADecompressor | bz2.BZ2Decompressor]


class _Decompressed:
    """The content of one or more concatenated xz or bzip2 streams."""

    def __init__(self, source: IO[bytes], begin: _Begin) -> None:
        self._source = source
        self._begin = begin
        self._decompressor = begin()

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes; empty at the end.

        Raises:
            EOFError: if the stream is damaged or cut off, or needs too much memory.
        """
        data = b""
        while not data:
            if not self._decompressor.eof:
                packed = self._source.read(CHUNK) if self._decompressor.needs_input else b""
                if self._decompressor.needs_input and not packed:
                    raise EOFError("its compressed data is incomplete")
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
        """Return the first bytes of the next stream, without xz's zero padding; empty at the end."""
        packed = self._decompressor.unused_data.lstrip(b"\0")
        while not packed and (more := self._source.read(CHUNK)):
            packed = more.lstrip(b"\0")
        return packed


def decompressed(source: io.RawIOBase) -> IO[bytes]:
    """Decompress a stream of gzip, zstd, xz or bzip2; return any other stream unchanged.

    Reading raises one of DAMAGE if the stream is damaged. A truncated zstd stream may just end early.
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

"""Streams that say afterwards what went through them, compressed in any of the ways of layers or not."""

import gzip
import hashlib
import io
import shutil
import subprocess
import tarfile
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from argosy.errors import ArgosyError

CHUNK = 1 << 20

DAMAGE = (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error, ValueError, OverflowError)
"""What reading a damaged archive raises."""

MOST_AFTER_END = 64 << 20
"""Bytes of padding after a tar: compressed, they might go on for hours."""

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"


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
            EOFError: when more than `most` bytes are left.
        """
        left = 0
        while data := self.read(CHUNK):
            left += len(data)
            if most is not None and left > most:
                raise EOFError(f"more than {most >> 20} MiB follow its end")
        return f"sha256:{self._digest.hexdigest()}"


@contextmanager
def decompressed(source: Hashing, where: str) -> Iterator[IO[bytes]]:
    """Open the content of a stream that is compressed by gzip or zstd, or not at all.

    Args:
        where: what a message begins with.

    Raises:
        ArgosyError: when it is compressed by zstd, and that program is missing.
        EOFError: when zstd finds it damaged; gzip does so by several errors (DAMAGE).
    """
    buffered = io.BufferedReader(source, CHUNK)
    begin = buffered.peek(4)
    if begin.startswith(GZIP):
        with gzip.GzipFile(fileobj=buffered, mode="rb") as plain:
            yield plain  # type: ignore[misc]
    elif begin.startswith(ZSTD):
        with _by_zstd(buffered, where) as plain_of_zstd:
            yield plain_of_zstd
    else:
        yield buffered


@contextmanager
def _by_zstd(source: IO[bytes], where: str) -> Iterator[IO[bytes]]:
    program = shutil.which("zstd")
    if not program:
        raise ArgosyError(f"{where}: compressed by zstd, and there is no program zstd on PATH")
    command = [program, "--decompress", "--stdout", "--quiet"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdin and process.stdout
    feeder = threading.Thread(target=_feed, args=(source, process.stdin), daemon=True)
    feeder.start()
    try:
        yield process.stdout
        if process.stdout.read(1) == b"" and process.wait() != 0:
            raise EOFError("zstd cannot decompress it")
    finally:
        process.stdout.close()
        process.kill()
        process.wait()
        feeder.join()


def _feed(source: IO[bytes], target: IO[bytes]) -> None:
    # The reader has left, or the archive is cut off, which its digest tells as well.
    with suppress(OSError, *DAMAGE), target:
        shutil.copyfileobj(source, target, CHUNK)

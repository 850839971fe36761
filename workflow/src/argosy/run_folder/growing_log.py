"""Copies a log that a program is still writing."""

import codecs
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from argosy_common.errors import coloured
from argosy_common.reading import open_regular

CHUNK_BYTES = 1 << 20


@dataclass
class GrowingLog:
    """A log file, and the number of bytes copied (`place`); `prefix` precedes each line."""

    path: Path
    top: Path
    prefix: bytes = b""
    place: int = 0
    _last: bytes = field(default=b"\n", init=False)
    _rest: str = field(default="", init=False)
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"), init=False
    )

    def copy(self, out: BinaryIO, ended: bool = False) -> None:
        """Copy new content; with a prefix only whole lines, unless the log has `ended`.

        It opens the file each time: otherwise content from another node may stay invisible for long.

        Raises:
            OSError: if it is missing; NotReadError: if it is not a readable log.
        """
        with open_regular(self.path, self.top) as log:
            end = os.fstat(log.fileno()).st_size
            log.seek(self.place)
            # The next call copies content written meanwhile.
            while chunk := log.read(min(CHUNK_BYTES, max(0, end - self.place))):
                if self.prefix and not ended and len(chunk) < CHUNK_BYTES:
                    chunk = chunk[: chunk.rfind(b"\n") + 1]
                if not chunk:
                    break
                self.place += len(chunk)
                if shown := self._for_terminal(chunk):
                    out.write(self._with_prefix(shown))
                    self._last = shown[-1:]
                log.seek(self.place)
        out.flush()

    def end_line(self, out: BinaryIO) -> None:
        """End a rank's unfinished last line, so that the next rank's output starts on its own line."""
        if self.prefix and self._last != b"\n":
            out.write(b"\n")

    def _for_terminal(self, chunk: bytes) -> bytes:
        """Return the rest of the previous chunk and this one, without codes that control a terminal."""
        text, self._rest = coloured(self._rest + self._decoder.decode(chunk))
        return text.encode()

    def _with_prefix(self, chunk: bytes) -> bytes:
        if not self.prefix:
            return chunk
        body, end = (chunk[:-1], b"\n") if chunk.endswith(b"\n") else (chunk, b"")
        marked = body.replace(b"\n", b"\n" + self.prefix) + end
        return self.prefix + marked if self._last == b"\n" else marked

"""telemetry-<n>.jsonl: whole lines, or none of a sample."""

from __future__ import annotations

import errno
import json
import os
from typing import Any, Mapping, Sequence

from ..files import open_for_append
from .reading import why
from .source import Record, unread_record


class TelemetryWriter:
    """Writes each sample by one call. What cannot be written is left out, and later said to be.

    The header comes first even when it could not be written at once.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._size = 0
        self._header: Sequence[Record] = ()
        self._lost = 0
        self._reason = ""

    def begin(self, header: Mapping[str, Any]) -> None:
        """Put this first."""
        self._header = [header]

    def write(self, records: Sequence[Record]) -> None:
        """Add the lines of one sample, if that is possible now."""
        lines = [*self._header, *self._loss(), *records]
        if not lines:
            return
        try:
            self._append(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        except OSError as error:
            self._lost += 1
            self._reason = why(error)
        else:
            self._header = ()
            self._lost = 0

    def close(self) -> None:
        """Close the file: nothing more comes."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _loss(self) -> list[Record]:
        if not self._lost:
            return []
        return [unread_record("samples", f"{self._lost} not written: {self._reason}")]

    def _append(self, data: bytes) -> None:
        if self._descriptor is None:
            self._descriptor = open_for_append(self._path)
            self._size = os.fstat(self._descriptor).st_size
        written = os.write(self._descriptor, data)
        if written < len(data):
            # Half a line would spoil the next one.
            os.ftruncate(self._descriptor, self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += written

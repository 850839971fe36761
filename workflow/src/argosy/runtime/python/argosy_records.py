"""Writes a rank's records for `argosy_steps`: JSON Lines, and steps as rows of fixed width.

docs/run-folder.md describes both formats. Records are buffered and written about once a second.
"""

from __future__ import annotations

import atexit
import errno
import json
import os
import socket
import sys
import time
from typing import Any

from argosy_contract.files import FILE_MODE
from argosy_contract.layout import LINES_SUFFIX, SCHEMA_VERSION
from argosy_contract.steps import ROW_BYTES, row_header

DISK_FULL_EXIT = 74  # EX_IOERR of sysexits.h

_FLUSH_SECONDS = 1.0
_FILE = "ARGOSY_STEPS_FILE"
_OWNER = "ARGOSY_STEPS_OWNER"
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Log:
    """The files of one rank: steps in `path`, and other records beside it."""

    def __init__(self, path: str) -> None:
        self._pid = os.getpid()
        self._lines: list[str] = []
        self._rows: list[bytes] = []
        self._flushed = time.monotonic()
        self._row_file = _File(path, ROW_BYTES)
        self._line_file = _File(os.path.splitext(path)[0] + LINES_SUFFIX, 1)
        unix, monotonic = time.time(), time.monotonic()
        self.add(_line_header(unix, monotonic))
        rank, node = _number("ARGOSY_RANK"), _number("ARGOSY_NODE")
        self._rows.append(row_header(rank, node, unix, monotonic))
        self.flush()
        atexit.register(self._flush_at_exit)

    @classmethod
    def of_this_process(cls) -> Log | None:
        """Return the log, if Argosy set its path and this is the rank's own process."""
        path = os.environ.get(_FILE)
        if not path:
            return None
        owner = os.environ.get(_OWNER, "")
        if owner == str(os.getpid()):
            raise RuntimeError("argosy_steps: this process has a Recorder already; share it")
        if owner:
            return None
        # Child processes inherit the mark and do not write.
        os.environ[_OWNER] = str(os.getpid())
        return cls(path)

    def add(self, record: dict[str, Any]) -> None:
        self._lines.append(json.dumps(record))
        self._flush_in_time()

    def add_step(self, row: bytes) -> None:
        self._rows.append(row)
        self._flush_in_time()

    def flush(self) -> None:
        self._flushed = time.monotonic()
        lines, self._lines = self._lines, []
        rows, self._rows = self._rows, []
        # A forked child must not write its parent's records.
        if os.getpid() != self._pid:
            return
        if lines:
            self._line_file.write(("\n".join(lines) + "\n").encode())
        if rows:
            self._row_file.write(b"".join(rows))

    def _flush_in_time(self) -> None:
        if time.monotonic() - self._flushed >= _FLUSH_SECONDS:
            self.flush()

    def _flush_at_exit(self) -> None:
        try:
            self.flush()
        except SystemExit:
            # At exit, Python ignores the exit code of an exception.
            sys.stdout.flush()
            os._exit(DISK_FULL_EXIT)


class _File:
    """A file of records of `width` bytes each; 1: of any length."""

    def __init__(self, path: str, width: int) -> None:
        self._path = path
        self._width = width
        self._end = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            self._file = os.open(path, flags, FILE_MODE)
        except FileExistsError:
            raise RuntimeError(
                f"argosy_steps: {path} exists: only one program of a rank can record its steps"
            ) from None
        except OSError as error:
            self._give_up(error)

    def write(self, data: bytes) -> None:
        """Append data; after a full disk, overwrite the partial row."""
        rest, end = memoryview(data), self._end
        try:
            while rest:
                written = os.pwrite(self._file, rest, end)
                rest, end = rest[written:], end + written
        except OSError as error:
            self._give_up(error)
        finally:
            self._end = end - end % self._width

    def _give_up(self, error: OSError) -> None:
        if error.errno not in _FULL:
            raise error
        reason = os.strerror(error.errno or 0).lower()
        print(
            f"argosy_steps: {reason} while writing {self._path}: free space and run again",
            file=sys.stderr,
            flush=True,
        )
        raise SystemExit(DISK_FULL_EXIT)


def _line_header(unix: float, monotonic: float) -> dict[str, Any]:
    return {
        "kind": "header",
        "schema_version": SCHEMA_VERSION,
        "rank": _number("ARGOSY_RANK"),
        "local_rank": _number("ARGOSY_LOCAL_RANK"),
        "node": _number("ARGOSY_NODE"),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "unix": unix,
        "monotonic": monotonic,
    }


def _number(name: str) -> int:
    return int(os.environ.get(name, "0"))

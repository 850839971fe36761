"""Read and write files of a run's folder on the host, where programs of the run may have put anything.

For the programs of this folder that batch scripts start. A link is not followed, a FIFO or device not
waited for, a file read only up to a size, and JSON only as far as it can be trusted to be numbers and
texts. What is written is a new file of its own, moved into place.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import stat
import sys
import tempfile
from typing import Any, Mapping, TextIO

SCHEMA_VERSION = 2  # of each JSON file of a run (docs/run-folder.md)
MOST_JSON = 1 << 20  # bytes
MOST_LOG = 4 << 20
_UMASK = int(os.environ.get("ARGOSY_UMASK", "077"), 8)
FOLDER_MODE, _FILE_MODE = 0o777 & ~_UMASK, 0o666 & ~_UMASK
_LONGEST_NUMBER = 40  # digits; Python takes the square of their count to read more


def say(line: str) -> bool:
    """Print a line to standard output at once, and return whether it was written."""
    return _print(line, sys.stdout)


def complain(line: str) -> None:
    """Print a line to standard error, where anybody reads it."""
    _print(line, sys.stderr)


def _print(line: str, stream: TextIO | None) -> bool:
    if stream is None:
        return False  # started with that descriptor closed
    try:
        line = line.encode(stream.encoding, "backslashreplace").decode(stream.encoding)
        print(line, file=stream, flush=True)
    except OSError:
        # The rest of the buffer would fail again when Python ends, and replace the exit status by 120.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return False
    return True


def open_regular(path: str) -> int:
    """Return a descriptor for reading. Raises OSError, also for what is no regular file."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return descriptor


def read_bytes(path: str, most: int = MOST_JSON) -> bytes:
    """Return a file's content. Raises OSError, also for one that is longer than `most` bytes."""
    with open(open_regular(path), "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
    return content


def read_log(path: str, first: int = 0) -> str:
    """Return what a log holds from the byte `first` on; of a long one its beginning and its end.

    Both together are `MOST_LOG`. Raises OSError.
    """
    with open(open_regular(path), "rb") as file:
        file.seek(first)
        begin = file.read(MOST_LOG // 2)
        size = os.fstat(file.fileno()).st_size
        file.seek(max(first + len(begin), size - MOST_LOG // 2))
        return (begin + file.read(MOST_LOG // 2)).decode("utf-8", "replace")


def scheduler_log(run_dir: str, attempt: str) -> str:
    """Return the path of the log that the scheduler keeps of an attempt's job, through all its restarts."""
    return os.path.join(run_dir, "logs", f"scheduler-{attempt.rpartition('.')[0]}.log")


def read_object(path: str) -> dict[str, Any]:
    """Return the JSON object in a file, of the schema version that we know.

    Raises:
        OSError: as `read_bytes`.
        ValueError: it is damaged, or holds what JSON has no words for.
    """
    try:
        content = json.loads(
            read_bytes(path).decode("utf-8"),
            parse_constant=_refuse,
            parse_int=_whole,
            parse_float=_finite,
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None
    version = content.get("schema_version") if isinstance(content, dict) else None
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise ValueError(f"not an object of schema_version {SCHEMA_VERSION}")
    return content  # type: ignore[no-any-return]


def try_object(path: str) -> dict[str, Any]:
    """Return as `read_object` does; empty where that cannot be."""
    try:
        return read_object(path)
    except (OSError, ValueError):
        return {}


def number(value: object) -> float | None:
    """Return a JSON number, None for what is none."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if is_number else None  # type: ignore[return-value]


def whole(value: object, below: int) -> int | None:
    """Return a whole number from 0, None for what is none."""
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < below
    return value if good else None  # type: ignore[return-value]


def text(value: object, longest: int = 2000) -> str | None:
    """Return a text in one line without what a terminal would obey, None for what is none."""
    if not isinstance(value, str):
        return None
    return "".join(each if each.isprintable() else " " for each in value[:longest])


def write_text(path: str, content: str) -> None:
    """Replace a file at once, or make it, never by way of a link. Raises OSError."""
    folder, name = os.path.split(path)
    temporary = ""
    try:
        # O_EXCL and O_NOFOLLOW, by a name that nobody can guess.
        descriptor, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
        with open(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(descriptor, _FILE_MODE)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, path)
    except OSError as error:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise OSError(error.errno, os.strerror(error.errno or errno.EIO), path) from None


def write_object(path: str, content: Mapping[str, Any]) -> None:
    """Replace a JSON file at once. Raises OSError."""
    write_text(path, json.dumps(content, indent=1) + "\n")


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _whole(digits: str) -> int:
    if len(digits) > _LONGEST_NUMBER:
        raise ValueError("a number is too long")
    return int(digits)


def _finite(digits: str) -> float:
    value = float(digits)
    if len(digits) > 10 * _LONGEST_NUMBER or not math.isfinite(value):
        raise ValueError("a number is too large")
    return value

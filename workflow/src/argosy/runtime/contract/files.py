"""Read untrusted files of a run, and write files atomically.

Readers follow no link, do not wait for FIFOs or devices, and read up to a limit; they accept only JSON
with sane numbers and texts. Writers create a new file and rename it. Python 3.6.
"""

import contextlib
import errno
import json
import math
import os
import select
import stat
import tempfile
from typing import Any, Dict, Mapping, Optional

from .layout import SCHEMA_VERSION

MOST_JSON = 1 << 20  # bytes
MOST_LOG = 4 << 20
# The job's umask: a container engine may set another one.
UMASK = int(os.environ.get("ARGOSY_UMASK", "077"), 8)
FOLDER_MODE, FILE_MODE = 0o777 & ~UMASK, 0o666 & ~UMASK
_LONGEST_NUMBER = 40  # digits; Python's parser takes quadratic time


def open_regular(path: str) -> int:
    """Open a regular file for reading and return its descriptor. Raises OSError, also for other files."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    return check_regular(os.open(path, flags), path)


def check_regular(descriptor: int, path: str) -> int:
    """Return the descriptor of a regular file; close any other one and raise OSError."""
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file", path)


def read_bytes(path: str, most: int = MOST_JSON) -> bytes:
    """Return a file's content. Raises OSError, also for a file of more than `most` bytes."""
    with open(open_regular(path), "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
    return content


def read_log(path: str, first: int = 0) -> str:
    """Return the text of a log from the byte `first` on; empty if it cannot be read.

    Of a log longer than `MOST_LOG`, return the first and the last half of that.
    """
    try:
        with open(open_regular(path), "rb") as file:
            file.seek(first)
            begin = file.read(MOST_LOG // 2)
            size = os.fstat(file.fileno()).st_size
            file.seek(max(first + len(begin), size - MOST_LOG // 2))
            return (begin + file.read(MOST_LOG // 2)).decode("utf-8", "replace")
    except OSError:
        return ""


def read_object(path: str) -> Dict[str, Any]:
    """Return the JSON object in a file; raises as `read_bytes` and `object_of`."""
    return object_of(read_bytes(path))


def object_of(data: bytes) -> Dict[str, Any]:
    """Parse a JSON object of the known schema version. Raises ValueError."""
    try:
        content = json.loads(
            data.decode("utf-8"),
            parse_constant=_refuse,
            parse_int=_whole,
            parse_float=_finite,
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None
    version = content.get("schema_version") if isinstance(content, dict) else None
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise ValueError(f"schema_version is {version!r}, but this Argosy reads {SCHEMA_VERSION}")
    return content  # type: ignore[no-any-return]


def try_object(path: str) -> Dict[str, Any]:
    """Return the same as `read_object`; an empty object if that raises."""
    try:
        return read_object(path)
    except (OSError, ValueError):
        return {}


def number(value: object) -> Optional[float]:
    """Return a value that is a JSON number; None for anything else."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if is_number else None  # type: ignore[return-value]


def whole(value: object, below: int) -> Optional[int]:
    """Return a value that is a whole number from 0 to `below`; None for anything else."""
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < below
    return value if good else None  # type: ignore[return-value]


def text(value: object, longest: int = 2000) -> Optional[str]:
    """Return a text in one line without control characters; None for anything else."""
    if not isinstance(value, str):
        return None
    return "".join(each if each.isprintable() else " " for each in value[:longest])


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes, also to a non-blocking pipe or terminal."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            select.select([], [descriptor], [])


def write_text(path: str, content: str) -> None:
    """Create or replace a file atomically, without following links. Raises OSError."""
    folder, name = os.path.split(path)
    temporary = ""
    try:
        # mkstemp uses O_EXCL, O_NOFOLLOW and a random name.
        descriptor, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
        try:
            os.fchmod(descriptor, FILE_MODE)
            write_all(descriptor, content.encode("utf-8"))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except OSError as error:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise OSError(error.errno, os.strerror(error.errno or errno.EIO), path) from None


def write_json(path: str, content: Mapping[str, Any]) -> None:
    """Create or replace a JSON file atomically. Raises OSError."""
    write_text(path, json.dumps(content, indent=1) + "\n")


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _whole(digits: str) -> int:
    if len(digits) > _LONGEST_NUMBER:
        raise ValueError("a number is too long")
    return int(digits)


def _finite(digits: str) -> float:
    value = float(digits)
    if len(digits) > 10 * _LONGEST_NUMBER or not math.isfinite(value):
        raise ValueError("a number is too large")
    return value

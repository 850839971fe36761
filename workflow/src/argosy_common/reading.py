"""Reads untrusted files: it follows no links, waits for nothing, and limits all sizes.

A run's folder, a results folder from elsewhere and a log hold whatever a program put there: links to other
files of the reader, pipes that nobody writes to, devices, files without an end. Each function here is given
a path and the folder above it that is trusted, `top`. No part of the path below `top` may be a link or
`..`, and the file has to be a regular one of a size that is read in a time that is known.
"""

import ctypes
import errno
import json
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

_NUMBER = 437  # on all of Linux's architectures but Alpha
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08


class _How(ctypes.Structure):
    """struct open_how of linux/openat2.h, for openat2(2).

    Linux has the call since 5.6; the containers of some sites forbid it.
    """

    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


_LIBC = ctypes.CDLL(None, use_errno=True)
_SYSCALL = _LIBC.syscall
_SYSCALL.argtypes = (
    *(ctypes.c_long, ctypes.c_int, ctypes.c_char_p),
    *(ctypes.POINTER(_How), ctypes.c_size_t),
)
_SYSCALL.restype = ctypes.c_long


def open_below(folder: int, path: str, flags: int) -> int:
    """Open `path`, relative to the folder of that descriptor, for reading; a descriptor.

    Raises:
        OSError: when there is a link on the way or a part is missing, as open(2) does, and ENOSYS or EPERM
            where there is no such call.
    """
    how = _How(flags, 0, _NO_MAGICLINKS | _NO_SYMLINKS | _BENEATH)
    descriptor: int = _SYSCALL(_NUMBER, folder, os.fsencode(path), how, ctypes.sizeof(how))
    if descriptor < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)
    return descriptor


SMALL_BYTES = 16 << 20
"""Far more than any of the small files of a run needs, of however many nodes."""
MOST_BYTES = 64 << 30
"""Of a log, or of the records of a rank: that many take a minute."""
MOST_ENTRIES = 200_000
"""Of a folder."""

# A file with a thousand times less on the disk than its size is a hole, whatever compresses the disk. The
# smaller ones are read in seconds.
_HOLE_BYTES = 4 << 30
_HOLE_RATIO = 1000
_BLOCK_BYTES = 512
_CHUNK_BYTES = 1 << 16

_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PASS_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_TOP = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_OPEN_TOP_TO_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC

_KINDS = {
    stat.S_IFLNK: "is a link",
    stat.S_IFIFO: "is a pipe",
    stat.S_IFSOCK: "is a socket",
    stat.S_IFCHR: "is a device",
    stat.S_IFBLK: "is a device",
    stat.S_IFDIR: "is a folder, not a file",
    stat.S_IFREG: "is a file, not a folder",
}


class NotReadError(OSError):
    """An existing file or folder that is not read; `strerror` is the reason, str() adds its path."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(errno.EINVAL, why, str(path))

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


def site_of(run_dir: Path) -> Path:
    """Return the folder results/<site> above a run's folder; everything below it is untrusted."""
    return run_dir.parent.parent


@contextmanager
def open_regular(path: Path, top: Path, most: int = MOST_BYTES) -> Iterator[BufferedReader]:
    """Open the regular file `path`, of at most `most` bytes.

    Raises:
        NotReadError: for what is there and no such file.
        OSError: for what is missing or may not be read.
    """
    with os.fdopen(descriptor_of(path, top, most), "rb") as file:
        yield file


def descriptor_of(path: Path, top: Path, most: int = MOST_BYTES) -> int:
    """Return a descriptor of the regular file `path`, which the caller closes; raises as `open_regular`."""
    sys.audit("argosy_common.reading.open", str(path))
    descriptor = _open(path, top, _OPEN_FILE)
    try:
        _check(path, os.fstat(descriptor), most)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_bytes(path: Path, top: Path, most: int = SMALL_BYTES) -> bytes:
    """Return the content of a file of at most `most` bytes; raises as `open_regular`."""
    descriptor = descriptor_of(path, top, most)
    try:
        content = more = os.read(descriptor, os.fstat(descriptor).st_size + 1)
        # A file may grow, and a file system give less than it was asked for.
        while more and len(content) <= most:
            more = os.read(descriptor, _CHUNK_BYTES)
            content += more
    finally:
        os.close(descriptor)
    if len(content) > most:
        raise _too_large(path, most)
    return content


def read_text(path: Path, top: Path, most: int = SMALL_BYTES) -> str:
    """Return the text of a UTF-8 file, with U+FFFD for invalid bytes; raises as `open_regular`."""
    return read_bytes(path, top, most).decode("utf-8", "replace")


def read_end(path: Path, top: Path, size: int) -> tuple[bytes, bool]:
    """Return the last `size` bytes of a file, and whether that is all; raises as `open_regular`."""
    descriptor = descriptor_of(path, top, sys.maxsize)
    try:
        start = max(0, os.fstat(descriptor).st_size - size)
        return os.pread(descriptor, size, start), start == 0
    finally:
        os.close(descriptor)


def read_object(path: Path, top: Path, most: int = SMALL_BYTES) -> dict[str, Any]:
    """Return the JSON object in a file.

    Raises:
        ValueError: when it holds something else, or nests deeper than can be read.
        OSError: as `open_regular`.
    """
    found = json_of(read_bytes(path, top, most))
    if not isinstance(found, dict):
        raise ValueError("it contains no JSON object")
    return found


def json_of(text: bytes | str) -> Any:
    """Return the value of JSON text; raises ValueError, also for too deep nesting."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def status_of(path: Path, top: Path) -> os.stat_result:
    """Return the status of a regular file, which is not opened; raises as `open_regular`."""
    descriptor = _open(path, top, _LOOK)
    try:
        found = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise NotReadError(path, _KINDS.get(stat.S_IFMT(found.st_mode), "is not a file"))
    return found


def check_regular(path: Path, top: Path) -> None:
    """Raise as `open_regular` would, for a file that a library opens by its name."""
    sys.audit("argosy_common.reading.open", str(path))
    _check(path, status_of(path, top), MOST_BYTES)


def is_regular(path: Path, top: Path) -> bool:
    """Return whether the path is a regular file."""
    try:
        status_of(path, top)
    except OSError:
        return False
    return True


def entries(path: Path, top: Path, most: int = MOST_ENTRIES) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of a folder; use each before asking for the next.

    Raises:
        NotReadError: when it is not a folder, or holds more than `most` entries.
        OSError: when it is missing or cannot be listed.
    """
    folder = os.open(top, _OPEN_TOP_TO_LIST) if path == top else _open(path, top, _OPEN_FOLDER)
    try:
        with os.scandir(folder) as found:
            for number, entry in enumerate(found):
                if number >= most:
                    raise NotReadError(path, f"contains more than {most:,} entries")
                yield entry
    finally:
        os.close(folder)


def folders_in(path: Path, top: Path, most: int = MOST_ENTRIES) -> list[str]:
    """Return the names of the folders in a folder, sorted, but for hidden ones; raises as `entries`."""
    found = entries(path, top, most)
    return sorted(e.name for e in found if e.is_dir(follow_symlinks=False) and e.name[0] != ".")


def _open(path: Path, top: Path, flags: int) -> int:
    """Return a descriptor of `path`, reached from `top` without links; the caller closes it."""
    parts = _parts(path, top)
    here = os.open(top, _OPEN_TOP)
    try:
        return open_below(here, "/".join(parts), flags)
    except OSError:
        # The call is missing, or failed; opening part by part finds the cause.
        return _open_by_parts(here, parts, flags, path)
    finally:
        os.close(here)


def _open_by_parts(top: int, parts: Sequence[str], flags: int, path: Path) -> int:
    here = os.dup(top)
    for number, part in enumerate(parts, start=1):
        try:
            there = os.open(part, flags if number == len(parts) else _PASS_FOLDER, dir_fd=here)
        except OSError as problem:
            raise _explained(problem, path, here, part) from None
        finally:
            os.close(here)
        here = there
    return here


def _parts(path: Path, top: Path) -> tuple[str, ...]:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        # JSON may hold half of a character, and a file's name be made of it.
        raise NotReadError(path, "is not a file name") from None
    parts, above = path.parts, top.parts
    below = parts[len(above) :]
    if parts[: len(above)] != above or not below or ".." in below or "\0" in str(path):
        raise NotReadError(path, f"lies outside {top}")
    return below


def _explained(problem: OSError, path: Path, folder: int, name: str) -> OSError:
    """Return what is wrong with the part `name` of `path`, besides permission or absence."""
    if problem.errno not in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.ENODEV):
        return OSError(problem.errno, problem.strerror, str(path))
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except OSError:
        return OSError(problem.errno, problem.strerror, str(path))
    what = _KINDS.get(stat.S_IFMT(mode), "is not a file")
    return NotReadError(path, what if name == path.name else f"{name} {what}")


def _check(path: Path, found: os.stat_result, most: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise NotReadError(path, _KINDS.get(stat.S_IFMT(found.st_mode), "is not a file"))
    if found.st_size > most:
        raise _too_large(path, most)
    if _is_hole(found) and most != sys.maxsize:
        raise NotReadError(path, "has a size but no data")


def _is_hole(found: os.stat_result) -> bool:
    return (
        found.st_size > _HOLE_BYTES and found.st_blocks * _BLOCK_BYTES * _HOLE_RATIO < found.st_size
    )


def _too_large(path: Path, most: int) -> NotReadError:
    return NotReadError(path, f"is larger than {most >> 20} MiB")

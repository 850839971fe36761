"""Read untrusted files: follow no links, never block, and limit all sizes.

Programs may leave anything in a run's folder or a log: links to the reader's other files, pipes without a
writer, devices, endless files. Each function takes a path and a trusted folder above it, `top`. No part of
the path below `top` may be a link or `..`, and the file must be a regular file of limited size.
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
    """struct open_how of openat2(2): since Linux 5.6, and forbidden in the containers of some sites."""

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
    """Open `path`, relative to the descriptor `folder`, without following links; return a descriptor.

    Raises:
        OSError: as openat2(2), also for links on the way; ENOSYS or EPERM if the call is unavailable.
    """
    how = _How(flags, 0, _NO_MAGICLINKS | _NO_SYMLINKS | _BENEATH)
    descriptor: int = _SYSCALL(_NUMBER, folder, os.fsencode(path), how, ctypes.sizeof(how))
    if descriptor < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)
    return descriptor


SMALL_BYTES = 16 << 20
"""Limit for a run's small files, with any number of nodes."""
MOST_BYTES = 64 << 30
"""Limit for a log or a rank's records; reading this many takes a minute."""
MOST_ENTRIES = 200_000
"""Limit for the entries of a folder."""

# A file whose blocks are a thousandth of its size is a hole, even on a compressing file system.
# Smaller files are read in seconds.
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
    """A file or folder exists but is refused; `strerror` is the reason, str() adds the path."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(errno.EINVAL, why, str(path))

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


def site_of(run_dir: Path) -> Path:
    """Return the folder results/<site> of a run's folder; its content is untrusted."""
    return run_dir.parent.parent


@contextmanager
def open_regular(path: Path, top: Path, most: int = MOST_BYTES) -> Iterator[BufferedReader]:
    """Open the regular file `path`, of at most `most` bytes.

    Raises:
        NotReadError: if it is no regular file, or too large.
        OSError: if it is missing or unreadable.
    """
    with os.fdopen(descriptor_of(path, top, most), "rb") as file:
        yield file


def descriptor_of(path: Path, top: Path, most: int = MOST_BYTES) -> int:
    """Open the regular file `path` as a descriptor for the caller to close; raises as `open_regular`."""
    sys.audit("argosy_common.reading.open", str(path))
    descriptor = _open(path, top, _OPEN_FILE)
    try:
        _check(path, os.fstat(descriptor), most)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_bytes(path: Path, top: Path, most: int = SMALL_BYTES) -> bytes:
    """Read a file of at most `most` bytes; raises as `open_regular`."""
    descriptor = descriptor_of(path, top, most)
    try:
        content = more = os.read(descriptor, os.fstat(descriptor).st_size + 1)
        # The file may grow, and read(2) may return less than requested.
        while more and len(content) <= most:
            more = os.read(descriptor, _CHUNK_BYTES)
            content += more
    finally:
        os.close(descriptor)
    if len(content) > most:
        raise _too_large(path, most)
    return content


def read_text(path: Path, top: Path, most: int = SMALL_BYTES) -> str:
    """Read a UTF-8 file; invalid bytes become U+FFFD. Raises as `open_regular`."""
    return read_bytes(path, top, most).decode("utf-8", "replace")


def read_end(path: Path, top: Path, size: int) -> tuple[bytes, bool]:
    """Read the last `size` bytes; also return whether they are the whole file. Raises as `open_regular`."""
    descriptor = descriptor_of(path, top, sys.maxsize)
    try:
        start = max(0, os.fstat(descriptor).st_size - size)
        return os.pread(descriptor, size, start), start == 0
    finally:
        os.close(descriptor)


def read_object(path: Path, top: Path, most: int = SMALL_BYTES) -> dict[str, Any]:
    """Read a JSON object; raises as `open_regular`, and ValueError for anything else."""
    found = json_of(read_bytes(path, top, most))
    if not isinstance(found, dict):
        raise ValueError("it contains no JSON object")
    return found


def json_of(text: bytes | str) -> Any:
    """Parse JSON text; raise ValueError, also for too deep nesting."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def status_of(path: Path, top: Path) -> os.stat_result:
    """Return the status of a regular file without opening it; raises as `open_regular`."""
    descriptor = _open(path, top, _LOOK)
    try:
        found = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    _check(path, found, sys.maxsize)
    return found


def check_regular(path: Path, top: Path) -> None:
    """Check a file before a library opens it by name; raises as `open_regular`."""
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
    """Yield the entries of a folder; each is valid until the next is requested.

    Raises:
        NotReadError: if it is no folder, or has more than `most` entries.
        OSError: if it is missing or cannot be listed.
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
    """Return the sorted names of subfolders, without hidden ones; raises as `entries`."""
    found = entries(path, top, most)
    return sorted(e.name for e in found if e.is_dir(follow_symlinks=False) and e.name[0] != ".")


def _open(path: Path, top: Path, flags: int) -> int:
    """Open `path` from `top` without following links; the caller closes the descriptor."""
    parts = _parts(path, top)
    here = os.open(top, _OPEN_TOP)
    try:
        return open_below(here, "/".join(parts), flags)
    except OSError:
        # openat2 is unavailable or failed; opening part by part finds the cause.
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
        # A name from JSON may contain a lone surrogate.
        raise NotReadError(path, "is not a file name") from None
    parts, above = path.parts, top.parts
    below = parts[len(above) :]
    if parts[: len(above)] != above or not below or ".." in below or "\0" in str(path):
        raise NotReadError(path, f"lies outside {top}")
    return below


def _explained(problem: OSError, path: Path, folder: int, name: str) -> OSError:
    """Explain why the part `name` of `path` cannot be opened, if it is neither missing nor forbidden."""
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

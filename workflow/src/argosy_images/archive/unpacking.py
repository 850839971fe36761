"""Read the index of a packed image, and unpack its frames with several workers.

A packed image is a sequence of independent zstd frames, each the tar of a share of the files. The last
frame is the index, which zstd skips (RFC 8878, 3.1.2). So `zstd -dc FILE | tar -xi` unpacks it as well,
except for folder modes. The file ends with the index's length and digest.
"""

import hashlib
import json
import os
import struct
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import zstandard

from argosy_common.errors import ArgosyError

VERSION = 1

_SKIPPABLE = 0x184D2A5A
_HEAD = struct.Struct("<II")
_TAIL = struct.Struct("<I32s8s")
_MAGIC = b"argosy:i"


@dataclass(frozen=True)
class Frame:
    """The compressed tar of one share of the files.

    Args:
        offset: bytes from the beginning of the file.
        length: compressed bytes.
        sha256: digest of the compressed bytes.
        entries: number of files and links.
    """

    offset: int
    length: int
    sha256: str
    entries: int


@dataclass(frozen=True)
class Folder:
    """A folder of the image; `mtime` is in nanoseconds of Unix time."""

    path: str
    mode: int
    mtime: int


@dataclass(frozen=True)
class Index:
    """The parts of a packed image.

    Args:
        image: its digest.
        size: unpacked bytes.
        folders: parents first; the root has an empty path.
    """

    image: str
    size: int
    folders: tuple[Folder, ...]
    frames: tuple[Frame, ...]


def write_index(file: BinaryIO, index: Index) -> None:
    """Write the index after the frames."""
    folders = [(folder.path, folder.mode, folder.mtime) for folder in index.folders]
    content = {
        "version": VERSION,
        "image": index.image,
        "size": index.size,
        "folders": folders,
        "frames": [asdict(frame) for frame in index.frames],
    }
    packed = zstandard.ZstdCompressor().compress(json.dumps(content).encode("ascii"))
    file.write(_HEAD.pack(_SKIPPABLE, len(packed) + _TAIL.size))
    file.write(packed)
    file.write(_TAIL.pack(len(packed), hashlib.sha256(packed).digest(), _MAGIC))


def read_index(path: Path, image: str, remedy: str) -> Index:
    """Read the index of the packed image `path`; `remedy` is the command that makes the file.

    Raises:
        ArgosyError: if the file is missing, damaged, or of another image or version of Argosy.
    """
    try:
        content = _read_json(path)
    except FileNotFoundError:
        raise ArgosyError(
            f"{path}: this image is not packed for the nodes", f"run: {remedy}"
        ) from None
    if content is None:
        raise damaged(path, remedy)
    if content["version"] != VERSION:
        raise ArgosyError(
            f"{path}: packed by another version of Argosy (format {content['version']}, not "
            f"{VERSION})",
            f"run: {remedy}",
        )
    if content["image"] != image:
        raise ArgosyError(
            f"{path}: contains another image, {content['image'][:19]}", f"run: {remedy}"
        )
    folders = (Folder(*fields) for fields in content["folders"])
    frames = (Frame(**fields) for fields in content["frames"])
    return Index(image, content["size"], tuple(folders), tuple(frames))


def damaged(path: Path, remedy: str) -> ArgosyError:
    """Return the error for a damaged packed image."""
    return ArgosyError(f"{path}: this packed image is damaged or cut off", f"run: {remedy}")


def _read_json(path: Path) -> Mapping[str, Any] | None:
    """Read the index as JSON; None if the file is damaged."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        if end < _TAIL.size:
            return None
        file.seek(end - _TAIL.size)
        length, digest, magic = _TAIL.unpack(file.read(_TAIL.size))
        if magic != _MAGIC or length > end - _TAIL.size:
            return None
        file.seek(end - _TAIL.size - length)
        packed = file.read(length)
    if hashlib.sha256(packed).digest() != digest:
        return None
    content: Mapping[str, Any] = json.loads(zstandard.ZstdDecompressor().decompress(packed))
    return content


MOST_WORKERS = 16
"""Maximum number of workers; more would wait for the disk."""

_CHUNK = 1 << 20


def workers() -> int:
    """Return the number of workers for this process's cores."""
    return min(len(os.sched_getaffinity(0)), MOST_WORKERS)


def unpack(path: Path, index: Index, target: Path, remedy: str, held: Sequence[int] = ()) -> None:
    """Unpack into the new folder `target`, which is complete only when this returns.

    Args:
        remedy: the command that makes the packed file again.
        held: descriptors that stay open while tar writes, even if this process is killed.

    Raises:
        ArgosyError: if the file is damaged, or the disk is full.
    """
    for folder in index.folders:
        os.mkdir(_inside(target, folder), 0o700)

    def unpack_frame(source: "_Source") -> None:
        with _tar(target, held) as tar:
            _decompress(source, tar)

    try:
        _for_all_frames(path, index, unpack_frame)
    except (zstandard.ZstdError, _DamagedError):
        raise damaged(path, remedy) from None
    # Last, since new files change a folder's time, and its mode may forbid them.
    for folder in reversed(index.folders):
        _finish(_inside(target, folder), folder)


def verify(path: Path, index: Index, remedy: str) -> None:
    """Check the digests of all frames.

    Raises:
        ArgosyError: if a frame is damaged.
    """

    def read(source: "_Source") -> None:
        while source.read(_CHUNK):
            pass

    try:
        _for_all_frames(path, index, read)
    except _DamagedError:
        raise damaged(path, remedy) from None


class _DamagedError(Exception):
    """A frame is damaged."""


class _StoppedError(Exception):
    """Another worker failed, or this process is ending."""


class _Source:
    """Reads the compressed bytes of a frame and computes their digest."""

    def __init__(self, descriptor: int, frame: Frame, stop: threading.Event) -> None:
        self._descriptor = descriptor
        self._frame = frame
        self._stop = stop
        self._done = 0
        self._digest = hashlib.sha256()

    def read(self, size: int) -> bytes:
        """Return the next bytes; empty at the end."""
        if self._stop.is_set():
            raise _StoppedError
        wanted = min(size, self._frame.length - self._done)
        data = os.pread(self._descriptor, wanted, self._frame.offset + self._done)
        if wanted and not data:
            raise _DamagedError
        self._digest.update(data)
        self._done += len(data)
        return data

    def finish(self) -> None:
        """Read the rest and check the digest."""
        while self.read(_CHUNK):
            pass
        if self._digest.hexdigest() != self._frame.sha256:
            raise _DamagedError


def _for_all_frames(path: Path, index: Index, work: Callable[[_Source], None]) -> None:
    """Run `work` on all frames with several threads; stop all if one fails or this process is ending."""
    stop = threading.Event()
    problems: list[Exception] = []
    waiting = deque(index.frames)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def take_frames() -> None:
        while waiting and not stop.is_set():
            # Another worker may have taken the last one.
            with suppress(IndexError):
                source = _Source(descriptor, waiting.popleft(), stop)
                try:
                    work(source)
                    source.finish()
                except Exception as problem:
                    # The first problem is the cause; stopped workers add theirs later.
                    problems.append(problem)
                    stop.set()

    # Not a pool: an interrupted pool does not wait for a thread that it was starting.
    threads = [threading.Thread(target=take_frames) for _ in range(workers())]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        # A thread without an id has not begun, and will see this first.
        stop.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
        os.close(descriptor)
    if problems:
        raise problems[0]


def _decompress(source: _Source, target: IO[bytes]) -> None:
    stream = cast(IO[bytes], source)
    reader = zstandard.ZstdDecompressor().stream_reader(stream, read_size=_CHUNK)
    while data := reader.read(_CHUNK):
        target.write(data)


@contextmanager
def _tar(target: Path, held: Sequence[int]) -> Iterator[IO[bytes]]:
    """Open the standard input of a tar that unpacks into `target`."""
    command = ["tar", "--extract", "--preserve-permissions", "--no-same-owner", "--file=-"]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [*command, "--directory", target],
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=said,
            # This module reads its messages, so they must be in English.
            env={**os.environ, "LC_ALL": "C"},
            pass_fds=held,
            pipesize=_CHUNK,
        )
        assert process.stdin
        try:
            # If tar ends early, its own message is the cause.
            with suppress(BrokenPipeError), process.stdin:
                yield process.stdin
        except BaseException:
            process.kill()
            process.wait()
            raise
        if process.wait() != 0:
            said.seek(0)
            lines = said.read().decode(errors="replace").strip().splitlines()
            raise ArgosyError(f"{target}: {lines[0] if lines else 'tar failed'}")


def _inside(target: Path, folder: Folder) -> str:
    return f"{target}/{folder.path}" if folder.path else str(target)


def _finish(place: str, folder: Folder) -> None:
    os.utime(place, ns=(folder.mtime, folder.mtime))
    os.chmod(place, folder.mode)

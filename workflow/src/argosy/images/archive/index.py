"""The index of a packed image: which frames it consists of, and its folders.

A packed image is a sequence of independent zstd frames, each of them the tar of a share of the files, and
last a frame that zstd skips (RFC 8878, 3.1.2), which holds the index. So `zstd -dc FILE | tar -xi` unpacks
it as well, but for the modes of folders. The last bytes of the file say where the index begins, and its
digest.
"""

import hashlib
import json
import os
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import zstandard

from argosy.errors import ArgosyError

VERSION = 1

_SKIPPABLE = 0x184D2A5A
_HEAD = struct.Struct("<II")
_TAIL = struct.Struct("<I32s8s")
_MAGIC = b"argosy:i"


@dataclass(frozen=True)
class Frame:
    """One share of the files: where its compressed bytes are, their SHA-256, and what they hold.

    Args:
        offset: in bytes from the file's beginning, as `length`.
        entries: how many files, links and the like.
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
        size: the room that it takes unpacked, in bytes.
        folders: each after the one that it is in; the first is the root, with an empty path.
    """

    image: str
    size: int
    folders: tuple[Folder, ...]
    frames: tuple[Frame, ...]


def write_index(file: BinaryIO, index: Index) -> None:
    """Write the index at the end of the frames."""
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
    """Return the index of the packed image `path`; `remedy` is the command that makes the file.

    Raises:
        ArgosyError: when the file is missing, damaged, of another image or another version of Argosy.
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
        raise ArgosyError(f"{path}: holds another image, {content['image'][:19]}", f"run: {remedy}")
    folders = (Folder(*fields) for fields in content["folders"])
    frames = (Frame(**fields) for fields in content["frames"])
    return Index(image, content["size"], tuple(folders), tuple(frames))


def damaged(path: Path, remedy: str) -> ArgosyError:
    """Return what is said of a packed image that is not what was written."""
    return ArgosyError(f"{path}: this packed image is damaged or cut off", f"run: {remedy}")


def _read_json(path: Path) -> Mapping[str, Any] | None:
    """Return the index as JSON; None where it is not what was written."""
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

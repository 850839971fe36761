"""The loader that starts a program of an image, and the folders in which it finds libraries."""

import re
import stat
import struct
from collections.abc import Iterator
from typing import BinaryIO

from argosy.images.rootfs.rooted import Names, Root

_DEFAULT = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")
_CONFIGURATION = "/etc/ld.so.conf"
_MOST_BYTES = 1 << 20
"""Of a file of the loader's configuration."""

_HEADERS = struct.Struct("<32xQ14xHH")
"""Of the file's header: where the headers of its parts begin, how long each is, and their number."""
_PART = struct.Struct("<I4xQ16xQ")
"""Of a part's header: its kind, where it begins, and its length in the file."""
_INTERPRETER = 3
_MOST_NAME = 4096


def loader_of(root: Root, program: Names) -> str | None:
    """Return the path in the image of the loader that a program asks for; None where it asks for none.

    The layout is that of ELF for 64 bits, little-endian (System V ABI, chapters 4 and 5).

    Raises:
        OSError: when the program is no regular file.
    """
    with root.folder(program[:-1]) as folder, folder.read(program[-1]) as file:
        start = file.read(_HEADERS.size)
        if len(start) < _HEADERS.size or start[:6] != b"\x7fELF\x02\x01":
            return None
        return _loader(file, *_HEADERS.unpack(start))


def _loader(file: BinaryIO, place: int, length: int, number: int) -> str | None:
    for index in range(number):
        file.seek(place + index * length)
        part = file.read(_PART.size)
        if len(part) < _PART.size:
            return None
        kind, begin, size = _PART.unpack(part)
        if kind == _INTERPRETER and size <= _MOST_NAME:
            file.seek(begin)
            return file.read(size).rstrip(b"\0").decode("utf-8", "replace")
    return None


def library_folders(root: Root, first: str) -> list[Names]:
    """Return the folders of libraries as the image's own loader takes them (ld.so(8)), links resolved.

    Args:
        root: of the image.
        first: the image's LD_LIBRARY_PATH.
    """
    asked = [*first.split(":"), *_configured(root, _CONFIGURATION, set()), *_DEFAULT]
    found = dict.fromkeys(root.resolve(path) for path in asked if path.startswith("/"))
    return [names for names in found if root.is_folder(names)]


def preloaded_libraries(root: Root, asked: str) -> list[Names]:
    """Return the libraries that an image's LD_PRELOAD names, links resolved.

    One that is named without its folder has none here either: it is found in the library folders.
    """
    words = asked.replace(":", " ").split()
    found = (root.resolve(word) if "/" in word else (word,) for word in words)
    return [names for names in found if names]


def _configured(root: Root, pattern: str, read: set[Names]) -> Iterator[str]:
    """Yield the folders that the loader's configuration names, with those of the files that it includes."""
    for names, _ in root.find(pattern):
        status = root.status_of(names)
        if names in read or status is None or not stat.S_ISREG(status.st_mode):
            continue
        read.add(names)
        with root.folder(names[:-1]) as folder, folder.read(names[-1]) as file:
            text = file.read(_MOST_BYTES).decode("utf-8", "replace")
        for line in text.splitlines():
            words = re.split(r"[\s:,]+", line.partition("#")[0].strip())
            if words[0] == "include":
                for included in words[1:]:
                    path = included if included.startswith("/") else f"/etc/{included}"
                    yield from _configured(root, path, read)
            else:
                yield from (word.partition("=")[0] for word in words if word)

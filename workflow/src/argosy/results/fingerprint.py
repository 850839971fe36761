"""Tells whether the files of a run changed since they were last read, without reading them."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path


def fingerprint(folder: Path) -> str:
    """A digest of the names, sizes and times of a run's files; of its logs the names alone.

    Raises:
        OSError: when a folder of the run cannot be listed.
    """
    digest = hashlib.sha256()
    for line in sorted(_stated(folder)):
        digest.update(line.encode("utf-8", "surrogateescape") + b"\0")
    return digest.hexdigest()[:32]


def _stated(folder: Path) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file():
                yield _state(entry)
    for kind, describe in (("records", _state), ("logs", _name)):
        for incarnation in sorted((folder / kind).glob("*/")):
            with os.scandir(incarnation) as entries:
                yield from (f"{kind}/{incarnation.name}/{describe(entry)}" for entry in entries)


def _state(entry: os.DirEntry[str]) -> str:
    status = entry.stat()
    return f"{entry.name} {status.st_size} {status.st_mtime_ns}"


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name

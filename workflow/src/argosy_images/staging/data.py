"""Copy a user's data to a node's disk, once for all jobs that read it.

A copy is valid only if it equals the data that the job's first node found. Standard library only, since
it runs without a container.
"""

import hashlib
import json
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from argosy_common.disk import BLOCK
from argosy_common.errors import ArgosyError
from argosy_common.units import amount
from argosy_images.staging.folder import NodeFolder
from argosy_images.staging.room import Need, added, make_room
from argosy_images.staging.stage import Place, Say, Staged, kept

MOST_COPIERS = 16
SAY_EVERY_S = 60.0
_BATCH = 1000
_CHUNK = 4 << 20
_KEEP = "leave the data as it is while jobs start"
_LEAVE_OUT = "leave out stage: node"
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class Noted:
    """Data as the job's first node found it.

    Args:
        path: the data's path without links.
        files: number of files and links.
        newest_unix: newest mtime.
        changed_unix: newest ctime, which programs cannot set.
        sha256: digest of the list of each regular file's SHA-256 and name, if requested.
    """

    path: str
    files: int
    bytes: int
    newest_unix: float
    changed_unix: float
    sha256: str | None

    @property
    def key(self) -> str:
        """The name of the copy; jobs with the same key share it."""
        times = (self.newest_unix, self.changed_unix)
        facts = json.dumps((self.path, self.files, self.bytes, *times, self.sha256))
        return f"data:{hashlib.sha256(facts.encode()).hexdigest()}"


def copied(source: str, noted: Noted, place: Place, say: Say) -> AbstractContextManager[Staged]:
    """Copy the data to this node, unless a copy exists.

    Raises:
        ArgosyError: if the disk is full, or the data has changed or contains special files.
    """

    def fill(folder: NodeFolder, _: int) -> None:
        assert place.room is not None
        folder.remove_partials()
        size = noted.bytes + noted.files * BLOCK
        need = Need("data", size, _LEAVE_OUT, noted.files)
        make_room(folder, need, place.room, say)
        say(f"copying {source} ({amount(noted.bytes)}) into {folder.path}")
        with added(folder, noted.key, need) as root:
            _Copy(Path(source).resolve(), root, say).make(noted)

    return kept(noted.key, place, fill, say, of_programs=False)


class _Copy:
    """Copies a folder or a file."""

    def __init__(self, top: Path, target: Path, say: Say) -> None:
        self._top, self._target, self._say = top, target, say
        self._files = self._bytes = 0
        self._newest = 0.0
        self._names: list[str] = []
        """Names of the regular files, and of links to them."""
        self._began = self._said = time.monotonic()
        self._stopped = threading.Event()

    def make(self, noted: Noted) -> None:
        """Copy everything, and compare the copy with the first node's data."""
        copiers = min(len(os.sched_getaffinity(0)), MOST_COPIERS)
        try:
            with ThreadPoolExecutor(copiers) as pool:
                try:
                    if self._top.is_dir():
                        self._copy_folders(pool.map)
                    else:
                        self._count(".", self._copy_file(self._top, self._target))
                finally:
                    self._stopped.set()
        except FileNotFoundError as problem:
            if not str(problem.filename).startswith(str(self._top)):
                raise
            raise ArgosyError(f"{problem.filename} was removed meanwhile", _KEEP) from None
        except PermissionError as problem:
            raise ArgosyError(f"{problem.filename} is not readable", "make it readable") from None
        self._compare(noted)
        took = time.monotonic() - self._began
        self._say(f"copied {amount(self._bytes)} in {took:.1f} s, with {copiers} workers")

    def _copy_folders(self, run: Callable[..., Iterator[os.stat_result]]) -> None:
        folders, made = [""], []
        while folders:
            name = folders.pop()
            target = self._target / name
            target.mkdir(mode=0o700)
            made.append(target)
            files = (each for each in self._entries(name, folders))
            while batch := [*islice(files, _BATCH)]:
                paths = [self._top / each for each in batch]
                targets = [self._target / each for each in batch]
                for each, found in zip(batch, run(self._copy_file, paths, targets), strict=True):
                    self._count(each, found)
        for target in made:
            target.chmod(0o555)

    def _entries(self, name: str, folders: list[str]) -> Iterator[str]:
        """Yield the files of a folder, copy its links, and append its subfolders to `folders`."""
        with os.scandir(self._top / name) as entries:
            for entry in entries:
                inner = f"{name}/{entry.name}" if name else entry.name
                if entry.is_symlink():
                    self._copy_link(inner)
                elif entry.is_dir():
                    folders.append(inner)
                elif entry.is_file():
                    yield inner
                else:
                    raise ArgosyError(
                        f"{entry.path} is no file, folder or link", f"remove it, or {_LEAVE_OUT}"
                    )

    def _copy_link(self, name: str) -> None:
        path = self._top / name
        leads = path.readlink()
        # Check the text, which counts in the copy, and the links that it passes.
        within = os.path.normpath(Path(name).parent / leads)
        is_out = leads.is_absolute() or within.split("/")[0] == ".."
        if is_out or not path.resolve().is_relative_to(self._top):
            raise ArgosyError(
                f"{path} is a link to {leads}, which leads out of the folder",
                f"replace it by its target, or {_LEAVE_OUT}",
            )
        (self._target / name).symlink_to(leads)
        if path.is_file():
            self._count(name, path.stat())

    def _count(self, name: str, found: os.stat_result) -> None:
        self._files += 1
        self._bytes += found.st_size
        self._newest = max(self._newest, found.st_mtime)
        self._names.append(name)
        if (now := time.monotonic()) - self._said > SAY_EVERY_S:
            self._said = now
            took = now - self._began
            self._say(f"copied {self._files:,} files, {amount(self._bytes)}, in {took:.0f} s")

    def _copy_file(self, source: Path, target: Path) -> os.stat_result:
        """Copy a file, check that it does not change meanwhile, and return its status."""
        with os.fdopen(os.open(source, _OPEN), "rb", buffering=0) as file:
            before = os.fstat(file.fileno())
            if not stat.S_ISREG(before.st_mode):
                raise ArgosyError(f"{source} has changed meanwhile", _KEEP)
            size = 0
            with target.open("xb") as copy:
                while (part := file.read(_CHUNK)) and not self._stopped.is_set():
                    size += copy.write(part)
                os.fchmod(copy.fileno(), 0o444 | (before.st_mode & 0o111))
            after = os.fstat(file.fileno())
        if _state(before) != _state(after) or size != before.st_size:
            raise ArgosyError(f"{source} has changed meanwhile", _KEEP)
        os.utime(target, ns=(before.st_mtime_ns, before.st_mtime_ns))
        return before

    def _compare(self, noted: Noted) -> None:
        own = (self._files, self._bytes, self._newest)
        if own != (noted.files, noted.bytes, noted.newest_unix):
            raise ArgosyError(
                f"{self._top} differs from the data on the job's first node: {noted.files:,} files, "
                f"{noted.bytes:,} bytes there, {self._files:,} files, {self._bytes:,} bytes here, or "
                "another time of change",
                f"{_KEEP}, and the same on all nodes",
            )
        if noted.sha256 and _digest(self._target, self._names) != noted.sha256:
            raise ArgosyError(f"{self._top} has another digest than on the job's first node", _KEEP)


def _state(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _digest(top: Path, names: list[str]) -> str:
    lines = []
    for name in sorted(names):
        with (top / name).open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}\n")
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()

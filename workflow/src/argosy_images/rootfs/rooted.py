"""Access to files below an image's root folder, which no path or link can leave.

Files of an image are untrusted. The host would follow their symbolic links to its own files, so no path of
an image is passed to the kernel. Each name is looked up by the descriptor of its folder without following
links, and links are resolved here, within the image. Builds read and write images only by this module.
"""

import errno
import fnmatch
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Self

from argosy_common.disk import check_room
from argosy_images.rootfs.layers import DEEPEST, too_deep

MOST_LINKS = 40
"""Maximum number of links in one path, as in the kernel (path_resolution(7))."""

CIRCLE = "symbolic links in the image form a loop"

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_CHUNK = 1 << 20

FROZEN = ~0o222
"""Mask of the mode of a read-only folder."""

Names = tuple[str, ...]
"""A path from the root of an image without links among its folders."""


class Folder:
    """An open folder. Its methods take names of its entries, never paths."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)

    @property
    def _itself(self) -> str:
        """The folder's path for calls that accept no O_PATH descriptor."""
        return f"/proc/self/fd/{self._descriptor}"

    def names(self) -> list[str]:
        """Return the sorted names of its entries."""
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._descriptor)
        try:
            return sorted(os.listdir(descriptor))  # noqa: PTH208
        finally:
            os.close(descriptor)

    def own_status(self) -> os.stat_result:
        """Return the folder's own status."""
        return os.fstat(self._descriptor)

    def status(self, name: str) -> os.stat_result | None:
        """Return the status of an entry without following links; None if it is missing."""
        try:
            return os.stat(_single(name), dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def open(self, name: str) -> "Folder":
        """Open a subfolder, which must not be a link."""
        return Folder(os.open(_single(name), _FOLDER, dir_fd=self._descriptor))

    def read(self, name: str) -> BinaryIO:
        """Open a regular file without blocking; raise OSError for anything else."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        stream = os.fdopen(os.open(_single(name), flags, dir_fd=self._descriptor), "rb")
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            stream.close()
            raise OSError(errno.EINVAL, "not a regular file", name)
        return stream

    def link_target(self, name: str) -> str:
        """Return the target of a link."""
        return os.readlink(_single(name), dir_fd=self._descriptor)

    @contextmanager
    def make_file(self, name: str) -> Iterator[BinaryIO]:
        """Create a private file; write errors name it."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(_single(name), flags, 0o600, dir_fd=self._descriptor)
            with os.fdopen(descriptor, "wb") as made:
                yield made
        except OSError as problem:
            if problem.filename is None and problem.errno is not None:
                problem.filename = f"{Path(self._itself).readlink()}/{name}"
            raise

    def write(self, name: str, content: BinaryIO, mode: int, size: int = 0) -> None:
        """Create a file with this content, and keep the disk's reserve.

        Args:
            size: expected bytes, if known; holes count like data.

        Raises:
            OSError: ENOSPC, before the disk is full.
        """
        here = Path(self._itself).readlink()
        check_room(here, size)
        with self.make_file(name) as made:
            while chunk := content.read(_CHUNK):
                check_room(here, len(chunk))
                made.write(chunk)
            # At the end, since writing clears setuid and setgid.
            made.flush()
            os.fchmod(made.fileno(), mode)

    def make_folder(self, name: str, mode: int) -> None:
        """Create a folder."""
        os.mkdir(_single(name), 0o700, dir_fd=self._descriptor)
        with self.open(name) as made:
            made.set_mode(mode)

    def make_link(self, name: str, target: str) -> None:
        """Create a symbolic link."""
        os.symlink(target, _single(name), dir_fd=self._descriptor)

    def make_second_name(self, name: str, other: "Folder", other_name: str) -> None:
        """Create a hard link to a file of another folder."""
        places = {"src_dir_fd": other._descriptor, "dst_dir_fd": self._descriptor}
        os.link(_single(other_name), _single(name), **places, follow_symlinks=False)

    def make_pipe(self, name: str, mode: int) -> None:
        """Create a named pipe."""
        os.mkfifo(_single(name), 0o600, dir_fd=self._descriptor)
        self.set_mode_of(name, mode)

    def set_mode_of(self, name: str, mode: int) -> None:
        """Change the permissions of an entry; raise OSError ELOOP for a link."""
        flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(_single(name), flags, dir_fd=self._descriptor)
        try:
            if stat.S_ISLNK(os.fstat(descriptor).st_mode):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
            Path(f"/proc/self/fd/{descriptor}").chmod(mode)
        finally:
            os.close(descriptor)

    def set_mode(self, mode: int) -> None:
        """Change the folder's own permissions."""
        Path(self._itself).chmod(mode)

    def set_own_times(self, model: os.stat_result) -> None:
        """Copy the times of another file to the folder itself."""
        os.utime(self._itself, ns=(model.st_atime_ns, model.st_mtime_ns))

    def set_times(self, name: str, model: os.stat_result) -> None:
        """Copy the times of another file to an entry, without following links."""
        times = (model.st_atime_ns, model.st_mtime_ns)
        os.utime(_single(name), ns=times, dir_fd=self._descriptor, follow_symlinks=False)

    def remove(self, name: str) -> None:
        """Remove an entry if it exists, a folder with its content."""
        self._remove(name, DEEPEST)

    def _remove(self, name: str, deepest: int) -> None:
        status = self.status(name)
        if status is None:
            return
        if not stat.S_ISDIR(status.st_mode):
            os.unlink(name, dir_fd=self._descriptor)
            return
        if not deepest:
            raise too_deep(name)
        with self.open(name) as inner:
            inner.set_mode(stat.S_IRWXU)
            for each in inner.names():
                inner._remove(each, deepest - 1)
        os.rmdir(name, dir_fd=self._descriptor)

    def remove_if_empty(self, name: str) -> None:
        """Remove an empty file or folder; leave anything else."""
        status = self.status(name)
        if status and stat.S_ISDIR(status.st_mode):
            os.rmdir(name, dir_fd=self._descriptor)
        elif status and stat.S_ISREG(status.st_mode) and status.st_size == 0:
            os.unlink(name, dir_fd=self._descriptor)


class Root(Folder):
    """The host's folder `path`, as the root of an image."""

    def __init__(self, path: Path) -> None:
        super().__init__(os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
        self.path = path

    def resolve(self, path: str) -> Names:
        """Resolve all links of a path within the image, also of the last name. Missing names stay.

        Raises:
            OSError: if links form a loop, or the path is too long.
        """
        ahead = _parts(path)[::-1]
        found: list[str] = []
        # The open folders of `found`, as far as they exist.
        way: list[Folder] = []
        links = 0
        try:
            while ahead:
                if len(found) > DEEPEST:
                    raise too_deep(path)
                name = ahead.pop()
                exists = len(way) == len(found)
                if name == "..":
                    found = found[:-1]
                    _close(way, len(found))
                    continue
                here = way[-1] if way else self
                status = here.status(name) if exists else None
                if status is None or not stat.S_ISLNK(status.st_mode):
                    found.append(name)
                    if status and stat.S_ISDIR(status.st_mode):
                        way.append(here.open(name))
                    continue
                links += 1
                if links > MOST_LINKS:
                    raise OSError(errno.ELOOP, CIRCLE, path)
                target = here.link_target(name)
                if target.startswith("/"):
                    found = []
                    _close(way, 0)
                ahead += _parts(target)[::-1]
            return tuple(found)
        finally:
            _close(way, 0)

    def folder(self, names: Names) -> Folder:
        """Open a folder; none of the names may be a link."""
        return self._walk(names, None)

    def make_folders(self, names: Names, mode: int = 0o755) -> Folder:
        """Open a folder; create it and its parents if missing."""
        return self._walk(names, mode)

    def _walk(self, names: Names, mode: int | None) -> Folder:
        here = Folder(os.dup(self._descriptor))
        for name in names:
            with here:
                if mode is not None and here.status(name) is None:
                    # Subfolders inherit setgid, as with mkdir(2).
                    here.make_folder(name, mode | here.own_status().st_mode & stat.S_ISGID)
                here = here.open(name)
        return here

    def find(self, pattern: str) -> list[tuple[Names, str]]:
        """Find the files that match a pattern; return each resolved path with the matching name.

        `*`, `?` and `[` match within one folder, as in Go's filepath.Match. Raises as `resolve`.
        """
        *folders, last = _parts(pattern) or ["."]
        found: list[Names] = [()]
        for part in folders:
            found = [
                self.resolve(_joined(each, name))
                for each in found
                for name in self._matching(each, part)
            ]
        wanted = [(each, name) for each in found for name in self._matching(each, last)]
        places = [(self.resolve(_joined(each, name)), name) for each, name in wanted]
        return [(names, name) for names, name in places if self.status_of(names)]

    def _matching(self, folder: Names, part: str) -> list[str]:
        if not any(character in part for character in "*?["):
            return [part]
        if not self.is_folder(folder):
            return []
        with self.folder(folder) as opened:
            return matching(opened.names(), part)

    def status_of(self, names: Names) -> os.stat_result | None:
        """Return the status of a path without following its last link; None if it is missing."""
        if not names:
            return self.own_status()
        try:
            with self.folder(names[:-1]) as folder:
                return folder.status(names[-1])
        except (FileNotFoundError, NotADirectoryError):
            return None

    def is_folder(self, names: Names) -> bool:
        """Return whether the path is a folder, and no link to one."""
        status = self.status_of(names)
        return status is not None and stat.S_ISDIR(status.st_mode)


def inside(root: Path, path: str) -> Path:
    """Return the host's path of `path` in the image `root`; raises as `Root.resolve`.

    Use it only for programs that need a path, and while no other program changes the image.
    """
    with Root(root) as tree:
        return root.joinpath(*tree.resolve(path))


def copy_file(source: Folder, name: str, target: Folder, as_name: str) -> None:
    """Copy a file, link or named pipe with mode and times; replace the target.

    Raises:
        OSError: for other kinds of files.
    """
    status = source.status(name)
    if status is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    kind, mode = stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode)
    if kind not in (stat.S_IFREG, stat.S_IFLNK, stat.S_IFIFO):
        raise OSError(errno.EINVAL, "neither a file nor a folder", name)
    target.remove(as_name)
    if kind == stat.S_IFLNK:
        target.make_link(as_name, source.link_target(name))
    elif kind == stat.S_IFIFO:
        target.make_pipe(as_name, mode)
    else:
        with source.read(name) as content:
            target.write(as_name, content, mode, status.st_size)
    target.set_times(as_name, status)


def matching(names: Iterable[str], pattern: str) -> list[str]:
    """Return the sorted names that match a pattern of COPY."""
    # Go negates a set by `^`, Python by `!`.
    return sorted(fnmatch.filter(names, pattern.replace("[^", "[!")))


def _joined(names: Names, name: str) -> str:
    return "/".join((*names, name))


def _parts(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _single(name: str) -> str:
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise OSError(errno.EINVAL, "not the name of a file", name)
    return name


def _close(way: list[Folder], left: int) -> None:
    while len(way) > left:
        way.pop().close()

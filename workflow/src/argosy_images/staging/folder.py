"""The folder of a user on a node, `<place>/argosy-<uid>/`, where images are unpacked and data is copied.

lock                   held by the one that unpacks, copies or makes room
<digest>/root/         an image (sha256-…) or data (data-…), there whole or not at all; data may be a file
<digest>/size          the room that it takes, in bytes
<digest>.lock          held by all who use it; its time says when it was used last
.making-…, .gone-…     what is being unpacked, copied or removed
"""

import fcntl
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from argosy_common.disk import remove_tree
from argosy_common.errors import ArgosyError
from argosy_images.store.strict_modes import open_private, open_strictly

SHARED = fcntl.LOCK_SH
ALONE = fcntl.LOCK_EX


def take(path: Path, kind: int) -> int:
    """Return a descriptor that holds the lock until it is closed, here and where it was handed on.

    Raises:
        ArgosyError: when this file system has no locks.
    """
    while True:
        descriptor = _take(path, kind)
        assert descriptor is not None
        # Meanwhile the file may have been removed: then nobody else looks at this one.
        if _is_at(descriptor, path):
            return descriptor
        os.close(descriptor)


def take_at_once(path: Path, kind: int) -> int | None:
    """Return the same, or None when others hold the lock.

    Raises:
        ArgosyError: as `take`.
    """
    descriptor = _take(path, kind | fcntl.LOCK_NB)
    if descriptor is None or _is_at(descriptor, path):
        return descriptor
    os.close(descriptor)
    return None


def _take(path: Path, kind: int) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, kind)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError as problem:
        os.close(descriptor)
        raise ArgosyError(
            f"{path.parent}: no file locks there ({problem.strerror})",
            "set images.folder in site.yaml to a folder on the node's own disk",
        ) from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


DATA = "data-"
MAKING = ".making-"
GONE = ".gone-"

REMEDY = "choose another images.folder (or tmpdir) or images.stage in site.yaml"


@dataclass(frozen=True)
class Wanted:
    """An image by digest and name, and the file that it is packed in."""

    digest: str
    name: str
    archive: Path


@dataclass(frozen=True)
class Image:
    """An unpacked image: its frozen tree, the room that it takes, and the lock of those who use it.

    Or data that was copied.
    """

    path: Path

    @property
    def what(self) -> str:
        """Which of both it is."""
        return "data" if self.path.name.startswith(DATA) else "image"

    @property
    def root(self) -> Path:
        """The frozen tree."""
        return self.path / "root"

    @property
    def size(self) -> int:
        """In bytes."""
        return int((self.path / "size").read_text(encoding="ascii"))

    @property
    def lock(self) -> Path:
        """The file of the lock."""
        return self.path.with_name(f"{self.path.name}.lock")

    @property
    def is_there(self) -> bool:
        """Whether it is: whole, since it is put there in one step."""
        return self.path.is_dir()


@dataclass(frozen=True)
class NodeFolder:
    """The user's folder on this node, which nobody else can look into or change."""

    path: Path

    @classmethod
    def below(cls, place: Path, *, of_programs: bool = True) -> "NodeFolder":
        """Return the folder below a place that others may write to as well, such as /tmp; made if missing.

        Args:
            place: on the node.
            of_programs: whether what is put there will be started.

        Raises:
            ArgosyError: when there can be none, or somebody else has put something there.
        """
        name = f"argosy-{os.geteuid()}"
        path = place / name
        try:
            # Links are followed once: who could change one later changes nothing for us.
            place = place.resolve(strict=True)
            path = place / name
            outer = open_strictly(place, REMEDY)
            try:
                own = open_private(outer, name, path, REMEDY)
            finally:
                os.close(outer)
        except OSError as problem:
            raise ArgosyError(
                f"{path}: nothing can be unpacked there on {os.uname().nodename} "
                f"({problem.strerror})",
                REMEDY,
            ) from None
        try:
            if of_programs and os.fstatvfs(own).f_flag & os.ST_NOEXEC:
                raise ArgosyError(
                    f"{place}: programs cannot be started from there (noexec)", REMEDY
                )
        finally:
            os.close(own)
        return cls(path)

    def image(self, digest: str) -> Image:
        """Return an image, there or not."""
        return Image(self.path / digest.replace(":", "-"))

    def images(self) -> list[Image]:
        """Return those that are there, the one that was used least recently first."""
        paths = (path for kind in ("sha256-", DATA) for path in self.path.glob(f"{kind}*"))
        found = [Image(path) for path in paths if path.is_dir()]
        return sorted(found, key=_last_use)

    def use(self, image: Image) -> int | None:
        """Return a descriptor that keeps the image there until it is closed; None where it is not there."""
        if not image.is_there:
            return None
        lock = take_at_once(image.lock, SHARED)
        if lock is None or image.is_there:
            return lock
        os.close(lock)
        return None

    @contextmanager
    def alone(self, when_waiting: Callable[[], None]) -> Iterator[int]:
        """Unpack or make room, while nobody else does; gives the descriptor of the lock."""
        path = self.path / "lock"
        lock = take_at_once(path, ALONE)
        if lock is None:
            when_waiting()
            lock = take(path, ALONE)
        try:
            yield lock
        finally:
            os.close(lock)

    def making(self) -> Path:
        """Return where to make a new folder for an image that is being unpacked."""
        return self.path / f"{MAKING}{secrets.token_hex(8)}"

    def remove_if_unused(self, image: Image) -> bool:
        """Take an image away; False where somebody uses it, and there it stays."""
        lock = take_at_once(image.lock, ALONE)
        if lock is None:
            return False
        gone = self.path / f"{GONE}{secrets.token_hex(8)}"
        try:
            if image.is_there:
                image.path.rename(gone)
            image.lock.unlink()
        finally:
            os.close(lock)
        remove_tree(gone)
        return True

    def remove_partials(self) -> None:
        """Take away what those who were killed have left; to be called while nobody unpacks."""
        for pattern in (MAKING, GONE):
            for path in self.path.glob(f"{pattern}*"):
                remove_tree(path)


def _last_use(image: Image) -> float:
    try:
        return image.lock.stat().st_mtime
    except FileNotFoundError:
        return 0.0

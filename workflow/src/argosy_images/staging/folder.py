"""The user's folder on a node, `<place>/argosy-<uid>/`, with unpacked images and copied data.

lock                   held while unpacking, copying or evicting
<digest>/root/         a complete image (sha256-…) or data (data-…); data may be a file
<digest>/size          its size in bytes
<digest>.lock          held by all its users; its mtime is the last use
.making-…, .gone-…     images and data being unpacked, copied or removed
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
    """Wait for a lock; return a descriptor that holds it until all its copies are closed.

    Raises:
        ArgosyError: if the file system has no locks.
    """
    while True:
        descriptor = _take(path, kind)
        assert descriptor is not None
        # If the file was removed meanwhile, the lock is void.
        if _is_at(descriptor, path):
            return descriptor
        os.close(descriptor)


def take_at_once(path: Path, kind: int) -> int | None:
    """Take a lock without waiting; return None if others hold it. Raises as `take`."""
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
            f"{path.parent}: this file system has no locks ({problem.strerror})",
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
    """The digest, name and packed file of an image to stage."""

    digest: str
    name: str
    archive: Path


@dataclass(frozen=True)
class Image:
    """An unpacked image, or copied data."""

    path: Path

    @property
    def what(self) -> str:
        """`data` or `image`."""
        return "data" if self.path.name.startswith(DATA) else "image"

    @property
    def root(self) -> Path:
        """The frozen tree, or the data."""
        return self.path / "root"

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return int((self.path / "size").read_text(encoding="ascii"))

    @property
    def lock(self) -> Path:
        """The lock file of its users."""
        return self.path.with_name(f"{self.path.name}.lock")

    @property
    def is_there(self) -> bool:
        """Whether it exists, which means that it is complete."""
        return self.path.is_dir()


@dataclass(frozen=True)
class NodeFolder:
    """The user's private folder on this node."""

    path: Path

    @classmethod
    def below(cls, place: Path, *, of_programs: bool = True) -> "NodeFolder":
        """Open or make the user's folder below `place`, which may be writable for all, such as /tmp.

        Args:
            of_programs: require a file system that allows programs.

        Raises:
            ArgosyError: if it cannot be made, or is not private to the user.
        """
        name = f"argosy-{os.geteuid()}"
        path = place / name
        try:
            # Resolve links only once, so that later changes of them have no effect.
            place = place.resolve(strict=True)
            path = place / name
            outer = open_strictly(place, REMEDY)
            try:
                own = open_private(outer, name, path, REMEDY)
            finally:
                os.close(outer)
        except OSError as problem:
            raise ArgosyError(
                f"{path}: this folder cannot be used on {os.uname().nodename} ({problem.strerror})",
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
        """Return the image or data of a digest; it may not exist."""
        return Image(self.path / digest.replace(":", "-"))

    def images(self) -> list[Image]:
        """Return the existing images and data, the least recently used first."""
        paths = (path for kind in ("sha256-", DATA) for path in self.path.glob(f"{kind}*"))
        found = [Image(path) for path in paths if path.is_dir()]
        return sorted(found, key=_last_use)

    def use(self, image: Image) -> int | None:
        """Take an image's lock, which prevents its removal; None if it does not exist."""
        if not image.is_there:
            return None
        lock = take_at_once(image.lock, SHARED)
        if lock is None or image.is_there:
            return lock
        os.close(lock)
        return None

    @contextmanager
    def alone(self, when_waiting: Callable[[], None]) -> Iterator[int]:
        """Hold the lock for unpacking, copying and evicting; yield its descriptor."""
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
        """Return a new path for an image that is being unpacked."""
        return self.path / f"{MAKING}{secrets.token_hex(8)}"

    def remove_if_unused(self, image: Image) -> bool:
        """Remove an image; return False and leave it if it is in use."""
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
        """Remove the temporary folders of killed processes. Requires `alone`."""
        for pattern in (MAKING, GONE):
            for path in self.path.glob(f"{pattern}*"):
                remove_tree(path)


def _last_use(image: Image) -> float:
    try:
        return image.lock.stat().st_mtime
    except FileNotFoundError:
        return 0.0

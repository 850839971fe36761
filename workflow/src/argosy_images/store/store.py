"""The store: a folder with images, tools and locks.

<store>/tools/           container tools unpacked from the distribution's packages
<store>/udocker/         udocker's tools, if udocker has installed them
<store>/udocker-repository/  the UDOCKER_DIR through which udocker lists and runs the frozen images
<store>/layers/<key>/    a cached build step: diff/ and layer.json
<store>/roots/<digest>/  a frozen root file system, complete and read-only
<store>/archives/        packed images, for nodes that unpack them
<store>/builds/<image>/  temporary folders of running builds
<store>/drivers/<v>/     NVIDIA's driver of version v, for containers
<store>/engines/         the engine chosen for each kind of host
<store>/history/         the inputs of each image's last build
<store>/uses/, projects/  users of images: see `uses.py`
<store>/trash/           files that are being deleted
<store>/cache/           downloads kept between builds, never part of an image
<store>/cache/images/    caches of each image's steps, private to the image
<store>/cache/blobs/     blobs of unfinished pulls
<store>/locks/           a file for each lock
"""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, ClassVar

from argosy_common.disk import remove_tree
from argosy_common.errors import READ_ONLY, ArgosyError
from argosy_images.store.strict_modes import TRUSTED_VARIABLE, check_place

if TYPE_CHECKING:
    from argosy_images.store.uses import Uses

QUIET_WAIT_S = 2
LONGEST_WAIT_S = 2 * 3600
"""Seconds of waiting for a lock before a message, and before an error."""


@dataclass(frozen=True)
class Store:
    """The folder of images and tools; by default `.argosy` in the project."""

    path: Path

    VARIABLE: ClassVar[str] = "ARGOSY_STORE"
    """Environment variable with the path of another store."""
    TRUSTED_VARIABLE: ClassVar[str] = TRUSTED_VARIABLE
    """Environment variable with users who may replace the store."""

    @classmethod
    def of_project(cls, project: Path) -> "Store":
        """Return the project's store, or the store named by ARGOSY_STORE.

        Links are resolved: the store may be a link to a larger disk, and runc rejects paths with links.

        Raises:
            ArgosyError: if others than its owner may replace it, since its files run as this user.
        """
        place = Path(os.environ.get(cls.VARIABLE) or project / ".argosy").absolute()
        check_place(
            place,
            f"files in the store {place} run as you: remove that permission (chmod go-w), set "
            f"{cls.VARIABLE} to a folder that only you can replace, or list trusted users in "
            f"{TRUSTED_VARIABLE}",
        )
        return cls(Path(os.path.realpath(place)))

    @property
    def is_writable(self) -> bool:
        """Whether this user may write to the store, or create it."""
        return os.access(next(filter(os.path.lexists, (self.path, *self.path.parents))), os.W_OK)

    @property
    def tools(self) -> Path:
        """Folder of tools unpacked from the distribution's packages."""
        return self.path / "tools"

    @property
    def udocker(self) -> Path:
        """Folder of udocker's own tools."""
        return self.path / "udocker"

    @property
    def udocker_repository(self) -> Path:
        """UDOCKER_DIR through which udocker lists the images."""
        return self.path / "udocker-repository"

    def driver(self, version: str) -> Path:
        """Return the folder of a version of NVIDIA's driver."""
        return self.path / "drivers" / version

    @property
    def uses(self) -> "Uses":
        """Notes of projects and runs that need its images."""
        # Imported late: most nodes write no note.
        from argosy_images.store.uses import Uses

        return Uses(self.path)

    @property
    def engines(self) -> Path:
        """Folder of the chosen engine of each kind of host."""
        return self.path / "engines"

    @property
    def downloads(self) -> Path:
        """Folder of downloads and caches kept between builds, never part of an image."""
        return self.path / "cache"

    @property
    def blobs(self) -> Path:
        """Folder of downloaded blobs, named by their digests, and unfinished ones (.part)."""
        return self.downloads / "blobs"

    def layer(self, key: str) -> Path:
        """Return the folder of a cached step."""
        return self.path / "layers" / key

    def root(self, digest: str) -> Path:
        """Return the frozen root file system of the image with this digest (`sha256:…`)."""
        return self.path / "roots" / digest.replace(":", "-")

    def description(self, digest: str) -> Path:
        """Return the path of a frozen image's description, a copy of its image.lock."""
        root = self.root(digest)
        return root.with_name(f"{root.name}.json")

    def archive(self, digest: str) -> Path:
        """Return the path of the packed image."""
        return self.path / "archives" / f"{digest.replace(':', '-')}.tar.zst"

    def history(self, image: str) -> Path:
        """Return the path of the record of an image's last build."""
        return self.path / "history" / f"{image}.json"

    @contextmanager
    def workspace(self, image: str) -> Iterator[Path]:
        """Yield a new temporary folder for an image; the caller holds the image's lock.

        Leftovers of killed builds are deleted, never reused: their last processes may still write there.
        """
        builds = self.path / "builds" / image
        builds.mkdir(parents=True, exist_ok=True, mode=0o700)
        left = [*builds.iterdir()]
        work = Path(mkdtemp(dir=builds))
        try:
            for path in left:
                remove_tree(path)
            yield work
        finally:
            remove_tree(builds)

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Hold a lock, such as an image's; wait for other holders.

        Raises:
            ArgosyError: if another process holds it for two hours, or the store is read-only.
        """
        # Imported late: a container's start needs no lock, and each node waits for imports.
        from filelock import FileLock, Timeout

        path = self.path / "locks" / f"{name}.lock"
        holder = path.with_suffix(".holder")
        lock = FileLock(path)
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.parent.mkdir(exist_ok=True)
            try:
                lock.acquire(timeout=QUIET_WAIT_S)
            except Timeout:
                print(
                    f"waiting for {_holder_in(holder)}, which holds {path}",
                    file=sys.stderr,
                    flush=True,
                )
                lock.acquire(timeout=LONGEST_WAIT_S)
            holder.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")
        except Timeout:
            hours = LONGEST_WAIT_S // 3600
            raise ArgosyError(
                f"{path}: {_holder_in(holder)} has held this lock for {hours} h"
            ) from None
        except OSError as problem:
            if problem.errno not in READ_ONLY:
                raise
            raise self.read_only() from None
        try:
            yield
        finally:
            lock.release()

    def read_only(self, why: str = "this changes the store") -> ArgosyError:
        """Return the error for a read-only store; `why` is a clause with the reason for writing."""
        return ArgosyError(
            f"{self.path}: {why}, but the store is read-only here: run the command on a host that "
            f"can write to it, or set {self.VARIABLE} to another folder"
        )

    @contextmanager
    def changing(self, image: str) -> Iterator[None]:
        """Hold an image's lock for a build or import; no other build of it and no prune run meanwhile."""
        with self.locked(f"image-{image}"):
            # `prune` takes this lock before it checks the image's, so one of the two sees the other.
            with self.locked("prune"):
                pass
            yield


def _holder_in(holder: Path) -> str:
    """Return the process in the note beside a lock, its last holder."""
    try:
        return holder.read_text(encoding="utf-8").strip() or "another process"
    except OSError:
        return "another process"

"""The folder of images on disk, and its locks.

<store>/tools/           container tools put together from the distribution's packages
<store>/udocker/         udocker's tools, where it has installed them
<store>/udocker-repository/  the UDOCKER_DIR by which udocker shows and runs the frozen images
<store>/layers/<key>/    one cached build step: diff/ and layer.json
<store>/roots/<digest>/  a frozen root file system, complete and read-only
<store>/archives/        frozen images as one file each, for nodes that unpack them
<store>/builds/<image>/  what builds under way work with, each in a folder of its own
<store>/drivers/<v>/     NVIDIA's driver in that version, for containers
<store>/engines/         which engine was chosen, for each kind of host
<store>/history/         what the last build of each image was made of
<store>/uses/, projects/  who needs which image: see `uses.py`
<store>/trash/           what is being deleted
<store>/cache/           downloads kept between builds, never part of an image
<store>/cache/images/    what each image's steps keep for its next build, seen by no other image
<store>/cache/blobs/     what was downloaded of images whose pull is not finished
<store>/locks/           one file for each thing that one process does at a time
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
"""Seconds of waiting for a lock: until a message, and until an error."""


@dataclass(frozen=True)
class Store:
    """The folder of images and tools; by default `.argosy` in the project, so nothing leaks out of it."""

    path: Path

    VARIABLE: ClassVar[str] = "ARGOSY_STORE"
    """The environment variable that names another store than the project's."""
    TRUSTED_VARIABLE: ClassVar[str] = TRUSTED_VARIABLE
    """The environment variable that names users who may replace the store."""

    @classmethod
    def of_project(cls, project: Path) -> "Store":
        """Return the project's store, or the one that the environment variable ARGOSY_STORE names.

        Either may be a link to where there is room; runc takes no root file system behind one.

        Raises:
            ArgosyError: when others than its owner may replace it, as what lies there runs as the user.
        """
        place = Path(os.environ.get(cls.VARIABLE) or project / ".argosy").absolute()
        check_place(
            place,
            f"files in the store {place} run as you: remove that permission (chmod go-w), let "
            f"{cls.VARIABLE} name a folder that only you can replace, or {TRUSTED_VARIABLE} name whom "
            "you trust so",
        )
        return cls(Path(os.path.realpath(place)))

    @property
    def is_writable(self) -> bool:
        """Whether it can be changed from here; not where it is mounted read-only, or somebody else's."""
        return os.access(next(filter(os.path.lexists, (self.path, *self.path.parents))), os.W_OK)

    @property
    def tools(self) -> Path:
        """Tools unpacked from the distribution's packages."""
        return self.path / "tools"

    @property
    def udocker(self) -> Path:
        """The folder where udocker has installed its tools."""
        return self.path / "udocker"

    @property
    def udocker_repository(self) -> Path:
        """The UDOCKER_DIR that shows the images to udocker's commands."""
        return self.path / "udocker-repository"

    def driver(self, version: str) -> Path:
        """Return what belongs to this version of NVIDIA's driver."""
        return self.path / "drivers" / version

    @property
    def uses(self) -> "Uses":
        """The notes of projects and runs that need its images."""
        # Imported where it is needed: most nodes note nothing.
        from argosy_images.store.uses import Uses

        return Uses(self.path)

    @property
    def engines(self) -> Path:
        """Which engine was chosen, for each kind of host."""
        return self.path / "engines"

    @property
    def downloads(self) -> Path:
        """Kept between builds, bound into them, never part of an image."""
        return self.path / "cache"

    @property
    def blobs(self) -> Path:
        """Downloads of images: whole ones by the digits of their digests, and parts."""
        return self.downloads / "blobs"

    def layer(self, key: str) -> Path:
        """Return the folder of one cached step."""
        return self.path / "layers" / key

    def root(self, digest: str) -> Path:
        """Return the frozen root file system of the image with this digest (`sha256:…`)."""
        return self.path / "roots" / digest.replace(":", "-")

    def description(self, digest: str) -> Path:
        """Return the lock of the frozen image, kept beside it: how its programs expect to be started."""
        root = self.root(digest)
        return root.with_name(f"{root.name}.json")

    def archive(self, digest: str) -> Path:
        """Return the frozen image as one file, for nodes that unpack it."""
        return self.path / "archives" / f"{digest.replace(':', '-')}.tar.zst"

    def history(self, image: str) -> Path:
        """Return what the last build of an image was made of."""
        return self.path / "history" / f"{image}.json"

    @contextmanager
    def workspace(self, image: str) -> Iterator[Path]:
        """Make a new folder for work on an image, gone afterwards, for who holds the image's lock.

        What killed builds left goes as well. It is never worked in: processes of a build that was
        killed a moment ago may still change it until they have come to their end.
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
        """Hold a lock, such as an image's: two builds of it do the work once, one after the other.

        Raises:
            ArgosyError: when somebody else holds it for longer than two hours, or the store cannot be
                written to.
        """
        # Imported where it is needed: starting a container takes no lock, and every node waits for it.
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
                    f"waiting for {_said_in(holder)}, which holds {path}",
                    file=sys.stderr,
                    flush=True,
                )
                lock.acquire(timeout=LONGEST_WAIT_S)
            holder.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")
        except Timeout:
            hours = LONGEST_WAIT_S // 3600
            raise ArgosyError(
                f"{path}: {_said_in(holder)} has held this lock for {hours} h"
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
        """Return what to say where the store cannot be changed; `why` it has to be, in a clause."""
        return ArgosyError(
            f"{self.path}: {why}, but the store is read-only here: run the command on a host that "
            f"can write to it, or set {self.VARIABLE} to another folder"
        )

    @contextmanager
    def changing(self, image: str) -> Iterator[None]:
        """Build or import an image: nobody else does meanwhile, and nothing is pruned.

        Raises:
            ArgosyError: as `locked`.
        """
        with self.locked(f"image-{image}"):
            # `prune` holds this one and then looks for the other; whoever comes second sees the first.
            with self.locked("prune"):
                pass
            yield


def _said_in(holder: Path) -> str:
    """Return who wrote the note beside a lock; it is of the last that took it."""
    try:
        return holder.read_text(encoding="utf-8").strip() or "another process"
    except OSError:
        return "another process"

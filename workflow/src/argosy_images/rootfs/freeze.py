"""Freeze an image: merge its layers, add mount points and accounts, and remove write permission.

All nodes and jobs share one frozen tree, so no engine may change it later.
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from argosy_common.disk import remove_tree
from argosy_common.errors import FULL, ArgosyError
from argosy_images.engines.models import GUEST_DIR, HOST_FILES
from argosy_images.rootfs.flatten import flatten, lay_over
from argosy_images.rootfs.layers import Layer
from argosy_images.rootfs.rooted import Folder, Names, Root

MOUNT_POINTS = (
    GUEST_DIR,
    "/etc",  # for name resolution
    "/.bind_host_files",  # udocker's own
    *("/dev", "/proc", "/sys", "/tmp"),
    *("/argosy", "/workloads", "/job", "/data"),
)

_OF_EACH_CONTAINER = ("dev", "proc", "sys")
"""Folders that each container mounts, which hide the image's content."""

_ACCOUNTS = {
    "/etc/passwd": b"root:x:0:0:root:/root:/bin/sh\n",
    "/etc/group": b"root:x:0:\n",
}
"""Files that engines require, and the default content."""


class GrowingTree:
    """A frozen tree in the new folder `making`, begun while the image's last layers are being built."""

    def __init__(self, making: Path) -> None:
        self.making = making
        self._layers: Sequence[Layer] = ()

    def begin(self, layers: Sequence[Layer]) -> None:
        """Merge the finished layers; `finish` starts again if this fails."""
        if not layers:
            return
        with suppress(OSError):
            flatten(layers, self.making, frozen=True)
            self._layers = layers

    def finish(
        self,
        layers: Sequence[Layer],
        target: Path,
        workdir: str = "/",
        volumes: Sequence[str] = (),
    ) -> None:
        """Add the remaining layers and move the tree to `target`; otherwise as `make_frozen`."""
        begun = len(self._layers)
        if begun and layers[:begun] == self._layers:
            for layer in layers[begun:]:
                lay_over(layer, self.making, frozen=True)
            _make_needed(self.making, workdir, volumes)
        else:
            remove_tree(self.making)
            make_frozen(layers, self.making, workdir, volumes)
        put_in_place(self.making, target)


def make_frozen(
    layers: Sequence[Layer], root: Path, workdir: str = "/", volumes: Sequence[str] = ()
) -> None:
    """Merge the layers into the new read-only folder `root`, and add the files that containers need.

    Args:
        workdir: the image's WORKDIR; made if missing.
        volumes: the image's VOLUME folders; made if missing, unless a file is in the way.

    Raises:
        OSError: if the disk is full or not writable, or the image has a file in place of a folder.
    """
    flatten(layers, root, frozen=True)
    _make_needed(root, workdir, volumes)


@contextmanager
def usable_only(refusal: str) -> Iterator[None]:
    """Turn an OSError about the image, such as a /tmp that is a file, into an ArgosyError.

    Errors of the host, such as a full disk, stay.
    """
    try:
        yield
    except OSError as problem:
        if problem.errno in (*FULL, errno.EROFS):
            raise
        raise ArgosyError(f"{refusal}: {problem.filename}: {problem.strerror}") from None


def put_in_place(making: Path, target: Path) -> None:
    """Move a frozen tree to its final path."""
    # Some file systems refuse to rename a read-only folder.
    making.chmod(0o755)
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    making.rename(target)
    target.chmod(0o555)


def _make_needed(root: Path, workdir: str, volumes: Sequence[str]) -> None:
    with Root(root) as tree:
        for target in MOUNT_POINTS:
            _make_folders(tree, tree.resolve(target))
        _make_workdir(tree, workdir)
        _link_host_files(tree, tree.resolve("/etc"))
        for path, content in _ACCOUNTS.items():
            _make_file(tree, tree.resolve(path), content)
        for volume in volumes:
            try:
                _make_folders(tree, tree.resolve(volume))
            except OSError as problem:
                if problem.errno in FULL:
                    raise


def _make_workdir(tree: Root, workdir: str) -> None:
    names = tree.resolve(workdir)
    if len(names) > 1 and names[0] in _OF_EACH_CONTAINER and names != ("dev", "shm"):
        why = f"WORKDIR lies in /{names[0]}, which each container mounts"
        raise OSError(errno.EINVAL, why, workdir)
    try:
        _make_folders(tree, names)
    except OSError as problem:
        if problem.errno in FULL:
            raise
        why = f"WORKDIR {workdir} is not a folder"
        raise OSError(problem.errno, why, problem.filename) from None


def _make_folders(tree: Root, names: Names) -> None:
    """Make read-only folders inside read-only ones."""
    for depth, name in enumerate(names):
        with tree.folder(names[:depth]) as folder:
            status = folder.status(name)
            if status is None:
                with _writable(folder):
                    folder.make_folder(name, 0o555)
            elif not stat.S_ISDIR(status.st_mode):
                path = f"/{'/'.join(names[: depth + 1])}"
                raise OSError(errno.EEXIST, os.strerror(errno.EEXIST), path)


def _make_file(tree: Root, names: Names, content: bytes) -> None:
    """Make a read-only file if missing; anything else there must be a regular file."""
    status = tree.status_of(names)
    if status is None:
        _make_folders(tree, names[:-1])
        with tree.folder(names[:-1]) as folder, _writable(folder):
            with folder.make_file(names[-1]) as file:
                file.write(content)
            folder.set_mode_of(names[-1], 0o444)
    elif not stat.S_ISREG(status.st_mode):
        # An engine would block on a pipe.
        raise OSError(errno.EINVAL, "not a regular file", f"/{'/'.join(names)}")


def _link_host_files(tree: Root, etc: Names) -> None:
    """Link the image's name resolution files to the copies that each container gets."""
    with tree.folder(etc) as folder, _writable(folder):
        for name in HOST_FILES:
            status = folder.status(name)
            if status and stat.S_ISDIR(status.st_mode):
                raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), f"/etc/{name}")
            folder.remove(name)
            folder.make_link(name, f"{GUEST_DIR}/etc/{name}")


@contextmanager
def _writable(folder: Folder) -> Iterator[None]:
    mode = stat.S_IMODE(folder.own_status().st_mode)
    folder.set_mode(mode | stat.S_IRWXU)
    yield
    folder.set_mode(mode)

"""Makes a built root file system ready to be shared: mount points made, then read-only.

One frozen tree serves every node and job at once, since nothing in it changes any more.
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from argosy.images.engines.models import GUEST_DIR, HOST_FILES
from argosy.images.rootfs.flatten import flatten, lay_over
from argosy.images.rootfs.layers import Layer
from argosy.images.rootfs.rooted import Folder, Names, Root
from argosy.images.store.store import remove_tree

MOUNT_POINTS = (
    GUEST_DIR,
    "/etc",  # for name resolution
    "/.bind_host_files",  # udocker's own
    *("/dev", "/proc", "/sys", "/tmp"),
    *("/argosy", "/workloads", "/job", "/data"),
)


class GrowingTree:
    """The frozen tree of an image, in the new folder `making`, begun while its last layers are being built.

    Files are the layers' own, by a second name; what is written to one would be written to the other.
    """

    def __init__(self, making: Path) -> None:
        self.making = making
        self._layers: Sequence[Layer] = ()

    def begin(self, layers: Sequence[Layer]) -> None:
        """Make the tree of the layers that are there. What goes wrong with that is found out at the end."""
        if not layers:
            return
        with suppress(OSError):
            flatten(layers, self.making, frozen=True)
            self._layers = layers

    def finish(self, layers: Sequence[Layer], target: Path) -> None:
        """Make it the frozen root `target` of all these layers.

        Raises:
            OSError: when the file system is full or not writable.
        """
        begun = len(self._layers)
        if begun and layers[:begun] == self._layers:
            for layer in layers[begun:]:
                lay_over(layer, str(self.making))
            _make_mount_points(self.making)
        else:
            remove_tree(self.making)
            make_frozen(layers, self.making)
        put_in_place(self.making, target)


def make_frozen(layers: Sequence[Layer], root: Path) -> None:
    """Make the new folder `root` of these layers: mount points made, and no folder that can be changed."""
    flatten(layers, root, frozen=True)
    _make_mount_points(root)


def put_in_place(making: Path, target: Path) -> None:
    """Move a frozen tree to where it is used."""
    # A folder without write permission cannot be renamed by its owner on every file system.
    making.chmod(0o755)
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    making.rename(target)
    target.chmod(0o555)


def _make_mount_points(root: Path) -> None:
    with Root(root) as tree:
        for target in MOUNT_POINTS:
            _make_folders(tree, tree.resolve(target))
        _link_host_files(tree, tree.resolve("/etc"))


def _make_folders(tree: Root, names: Names) -> None:
    """Make a read-only folder among read-only ones."""
    for depth, name in enumerate(names):
        with tree.folder(names[:depth]) as folder:
            status = folder.status(name)
            if status is None:
                with _writable(folder):
                    folder.make_folder(name, 0o555)
            elif not stat.S_ISDIR(status.st_mode):
                path = f"/{'/'.join(names[: depth + 1])}"
                raise OSError(errno.EEXIST, os.strerror(errno.EEXIST), path)


def _link_host_files(tree: Root, etc: Names) -> None:
    """Point the image's name resolution to the copies that every container is given at its start."""
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

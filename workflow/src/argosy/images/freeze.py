"""Makes a built root file system ready to be shared: mount points made, then read-only.

One frozen tree serves every node and job at once, since nothing in it changes any more.
"""

import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from argosy.errors import ArgosyError
from argosy.images.container import GUEST_DIR, HOST_FILES
from argosy.images.flatten import flatten, lay_over
from argosy.images.layers import Layer
from argosy.images.store import remove_tree

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
    for target in MOUNT_POINTS:
        _make_folder(inside(root, target))
    _link_host_files(inside(root, "/etc"))


def _make_folder(path: Path) -> None:
    """Make a read-only folder among read-only ones."""
    if path.is_dir():
        return
    _make_folder(path.parent)
    with _writable(path.parent):
        path.mkdir()
        path.chmod(0o555)


def _link_host_files(etc: Path) -> None:
    """Point the image's name resolution to the copies that every container is given at its start."""
    with _writable(etc):
        for name in HOST_FILES:
            (etc / name).unlink(missing_ok=True)
            (etc / name).symlink_to(f"{GUEST_DIR}/etc/{name}")


@contextmanager
def _writable(folder: Path) -> Iterator[None]:
    mode = stat.S_IMODE(folder.stat().st_mode)
    folder.chmod(mode | stat.S_IRWXU)
    yield
    folder.chmod(mode)


def inside(root: Path, path: str) -> Path:
    """Where `path` of the image lies on this host, with the image's own symbolic links followed.

    An image may hold links to absolute paths; followed by the host they would lead out of the image.

    Raises:
        ArgosyError: when the links go round in a circle.
    """
    parts = [part for part in reversed(path.split("/")) if part]
    resolved: list[str] = []
    for _ in range(1000):
        if not parts:
            return root.joinpath(*resolved)
        part = parts.pop()
        if part == "..":
            resolved = resolved[:-1]
        elif part != ".":
            link = root.joinpath(*resolved, part)
            if link.is_symlink():
                target = str(link.readlink())
                resolved = [] if target.startswith("/") else resolved
                parts += [name for name in reversed(target.split("/")) if name]
            else:
                resolved.append(part)
    raise ArgosyError(f"{root}: {path}: symbolic links in the image go round in a circle")

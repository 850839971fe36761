"""Makes a built root file system ready to be shared: mount points made, then read-only.

One frozen tree serves every node and job at once, since nothing in it changes any more.
"""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from argosy.errors import ArgosyError
from argosy.images.container import GUEST_DIR, HOST_FILES
from argosy.images.flatten import flatten
from argosy.images.layers import Layer

MOUNT_POINTS = (
    GUEST_DIR,
    "/.bind_host_files",  # udocker's own
    *("/dev", "/proc", "/sys", "/tmp"),
    *("/argosy", "/workloads", "/job", "/data"),
)


def freeze_layers(layers: Sequence[Layer], making: Path, target: Path) -> None:
    """Make the frozen root `target` of these layers, by way of the new folder `making` beside it.

    Files are the layers' own, by a second name; what is written to one would be written to the other.
    """
    flatten(layers, making)
    freeze(making)
    put_in_place(making, target)


def put_in_place(making: Path, target: Path) -> None:
    """Move a frozen tree to where it is used."""
    # A folder without write permission cannot be renamed by its owner on every file system.
    making.chmod(0o755)
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    making.rename(target)
    target.chmod(0o555)


def freeze(root: Path) -> None:
    """Make the mount points, and take away every permission to change a folder."""
    link_host_files(root)
    for target in MOUNT_POINTS:
        inside(root, target).mkdir(parents=True, exist_ok=True)
    for folder, _, _ in os.walk(root, topdown=False):
        path = Path(folder)
        path.chmod(stat.S_IMODE(path.stat().st_mode) & ~0o222)


def link_host_files(root: Path) -> None:
    """Point the image's name resolution to the copies that every container is given at its start."""
    etc = inside(root, "/etc")
    etc.mkdir(parents=True, exist_ok=True)
    for name in HOST_FILES:
        (etc / name).unlink(missing_ok=True)
        (etc / name).symlink_to(f"{GUEST_DIR}/etc/{name}")
    inside(root, GUEST_DIR).mkdir(parents=True, exist_ok=True)


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

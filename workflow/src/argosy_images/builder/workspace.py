"""Provide each step with a file system of the layers below it, and collect the step's changes.

The kernel's overlayfs does both without copying. Older kernels and network file systems lack it; there,
files are copied and compared.
"""

import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from argosy_common.disk import remove_tree
from argosy_images.namespaces import mount, unmount
from argosy_images.rootfs.flatten import ROOT_MODE, Copies, flatten, lay_over
from argosy_images.rootfs.layers import (
    Change,
    Layer,
    check_depth,
    find_below,
    is_opaque,
    mark_for_overlay,
    read_overlay,
    restore_marks,
    walk,
)

MOST_LAYERS = 60
"""Layers of one mount: the kernel limits their names to one page of memory."""

_JOINED_AT_ONCE = 30
"""Layers are joined in multiples of this, so that consecutive steps share a joined tree."""

MOST_TREES = 3
"""Copied trees kept at a time: steps of several stages may alternate."""


class OverlayWorkspace:
    """Opens file systems of layers, the lowest first, by overlayfs; only one is writable at a time.

    `folder` is this build's own, on the store's file system.
    """

    shares_files = False
    """Whether a file system opened by `read` shares its files with the layers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self._joined: dict[tuple[Path, ...], Path] = {}
        self._checked: set[Path] = set()

    @staticmethod
    def works(folder: Path) -> bool:
        """Try an overlay in this folder, and return whether it works."""
        place = folder / "overlay-probe"
        try:
            with OverlayWorkspace(place).open(()) as tree:
                (tree.root / "file").touch()
                return tree.save(place / "diff").entries == 1
        except OSError:
            return False
        finally:
            remove_tree(place)

    @contextmanager
    def open(self, layers: Sequence[Layer]) -> Iterator["OverlayTree"]:
        """Open a writable file system of these layers."""
        self._count += 1
        place = self._folder / str(self._count)
        for name in ("upper", "work", "root", "empty"):
            (place / name).mkdir(parents=True)
        (place / "upper").chmod(ROOT_MODE)
        for layer in layers:
            if layer.diff not in self._checked:
                restore_marks(layer)
                self._checked.add(layer.diff)
        _mount(self._mountable(layers), place)
        try:
            yield OverlayTree(place, layers)
        finally:
            unmount(place / "root")
            remove_tree(place)

    @contextmanager
    def read(self, layers: Sequence[Layer]) -> Iterator[Path]:
        """Open a file system of these layers for reading."""
        with self.open(layers) as tree:
            yield tree.root

    def _mountable(self, layers: Sequence[Layer]) -> list[Layer]:
        """Return the layers; if they are too many for one mount, join the lowest ones.

        Joined trees stay until the build ends, for later steps and mounts that still use them.
        """
        surplus = len(layers) + 1 - MOST_LAYERS
        if surplus <= 1:
            return list(layers)
        number = -(-surplus // _JOINED_AT_ONCE) * _JOINED_AT_ONCE
        lowest = layers[:number]
        key = tuple(layer.diff for layer in lowest)
        if key not in self._joined:
            folder = self._folder / f"joined-{len(self._joined)}"
            flatten(lowest, folder)
            self._joined[key] = folder
        return [Layer(self._joined[key]), *layers[number:]]


class OverlayTree:
    """A writable file system of a step."""

    def __init__(self, place: Path, layers: Sequence[Layer]) -> None:
        self.root = place / "root"
        self._upper = place / "upper"
        self._below = [*reversed(layers)]

    def save(self, diff: Path) -> Change:
        """Move the changes to the new folder `diff`; `root` is unusable afterwards."""
        self._drop_untouched("")
        change = read_overlay(self._upper)
        self._upper.rename(diff)
        return change

    def _drop_untouched(self, folder: str) -> None:
        """Remove empty folders that overlayfs copied up for files created and deleted again."""
        check_depth(folder)
        with os.scandir(self._upper / folder) as entries:
            found = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        for name in found:
            path = f"{folder}/{name}" if folder else name
            upper = self._upper / path
            if is_opaque(str(upper)):
                continue
            self._drop_untouched(path)
            lower = find_below(self._below, path)
            # The mode includes the file type.
            if lower and lower.lstat().st_mode == upper.lstat().st_mode:
                # A folder with files stays.
                with suppress(OSError):
                    upper.rmdir()


def _mount(layers: Sequence[Layer], place: Path) -> None:
    """Mount with names relative to a common folder: the kernel limits their total length."""
    names = [layer.diff for layer in reversed(layers)] or [place / "empty"]
    common = Path(os.path.commonpath([names[0].parents[1], place]))
    before = Path.cwd()
    os.chdir(common)
    try:
        lower = ":".join(str(name.relative_to(common)) for name in names)
        upper, work = (place.relative_to(common) / name for name in ("upper", "work"))
        options = f"lowerdir={lower},upperdir={upper},workdir={work},userxattr"
        mount("overlay", place / "root", "overlay", options=options)
    finally:
        os.chdir(before)


class CopyingWorkspace:
    """Opens file systems of copied files, compared before and after each step."""

    shares_files = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self._kept: list[CopiedTree] = []

    @contextmanager
    def open(self, layers: Sequence[Layer]) -> Iterator["CopiedTree"]:
        """Open a writable file system of these layers; reuse the tree of an earlier step if possible."""
        tree = next((kept for kept in self._kept if kept.is_of(layers)), None)
        if tree:
            self._kept.remove(tree)
        else:
            tree = CopiedTree(self._copied(layers), layers)
        yield tree
        # Not reached after a failed step, whose tree is unusable.
        self._kept.append(tree)
        if len(self._kept) > MOST_TREES:
            remove_tree(self._kept.pop(0).root)

    @contextmanager
    def read(self, layers: Sequence[Layer]) -> Iterator[Path]:
        """Open a file system of these layers for reading."""
        root = self._place()
        try:
            flatten(layers, root)
            yield root
        finally:
            remove_tree(root)

    def _copied(self, layers: Sequence[Layer]) -> Path:
        root = self._place()
        flatten((), root)
        for layer in layers:
            # Not one for all: a file of an upper layer may replace the first copy.
            lay_over(layer, root, Copies().place)
        return root

    def _place(self) -> Path:
        self._count += 1
        return self._folder / str(self._count)


class CopiedTree:
    """A writable file system of copied files."""

    def __init__(self, root: Path, layers: Sequence[Layer]) -> None:
        self.root = root
        self._layers = [_identity(layer.diff) for layer in layers]
        self._before = _snapshot(root)

    def is_of(self, layers: Sequence[Layer]) -> bool:
        """Return whether this is the file system of these layers."""
        return self._layers == [_identity(layer.diff) for layer in layers]

    def save(self, diff: Path) -> Change:
        """Copy the changes to the folder `diff`, and count it as a layer of this tree."""
        after = _snapshot(self.root)
        changed = [path for path, state in after.items() if self._before.get(path) != state]
        gone = {path for path in self._before if path not in after}
        diff.mkdir(mode=0o755)
        shutil.copystat(self.root, diff)
        copies = Copies()
        size = sum(self._move(path, diff, copies) for path in changed)
        removed = tuple(path for path in sorted(gone) if self._shows_removal(path, after))
        for path in removed:
            self._make_parents(path, diff)
        change = Change(removed, (), len(changed), size)
        mark_for_overlay(diff, change)
        self._before = after
        if change:
            self._layers.append(_identity(diff))
        return change

    def _shows_removal(self, path: str, after: dict[str, tuple[int, ...]]) -> bool:
        """Return whether a removed path needs an entry: its parent folder still exists."""
        folder = path.rpartition("/")[0]
        return not folder or (folder in after and stat.S_ISDIR(after[folder][0]))

    def _move(self, path: str, diff: Path, copies: Copies) -> int:
        """Copy a changed file to `diff`, and return its size."""
        source, target = self.root / path, diff / path
        self._make_parents(path, diff)
        status = source.lstat()
        if stat.S_ISDIR(status.st_mode):
            target.mkdir(exist_ok=True)
            shutil.copystat(source, target)
            return 0
        copies.place(str(source), str(target))
        return status.st_size if stat.S_ISREG(status.st_mode) else 0

    def _make_parents(self, path: str, diff: Path) -> None:
        """Create a path's parent folders with their modes and times."""
        for folder in reversed(Path(path).parents[:-1]):
            if not (diff / folder).is_dir():
                (diff / folder).mkdir()
                shutil.copystat(self.root / folder, diff / folder)


Tree = OverlayTree | CopiedTree
Workspace = OverlayWorkspace | CopyingWorkspace


def _identity(diff: Path) -> tuple[int, int]:
    """Return device and inode, which stay the same when the layer's folder is renamed."""
    status = diff.stat()
    return (status.st_dev, status.st_ino)


def _snapshot(root: Path) -> dict[str, tuple[int, ...]]:
    """Return a fingerprint of each path; it includes ctime, since programs can reset mtime.

    Sockets are left out: layers cannot store them, and no process would listen on them.
    """
    found = ((path, entry.stat(follow_symlinks=False)) for path, entry in walk(root))
    return {
        path: _fingerprint(status) for path, status in found if not stat.S_ISSOCK(status.st_mode)
    }


def _fingerprint(status: os.stat_result) -> tuple[int, ...]:
    if stat.S_ISDIR(status.st_mode):
        return (status.st_mode,)
    return (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)

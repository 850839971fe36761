"""List a store's frozen images, cached layers and downloads with their sizes on disk."""

import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from argosy_common.errors import ArgosyError
from argosy_images.builder import cache
from argosy_images.builder.cache import CachedStep
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store

BLOCK = 512

Inode = tuple[int, int]


@dataclass(frozen=True)
class File:
    """A file or folder: its size in bytes, its hard links, and the links found in the measured trees."""

    size: int
    links: int
    found: int


Usage = Mapping[Inode, File]


def measure(tree: Path) -> Usage:
    """Measure a tree by inode. Files may vanish meanwhile; unreadable folders count without content."""
    files: dict[Inode, File] = {}
    folders = [str(tree)]
    try:
        _add(files, tree.stat())
    except OSError:
        return files
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    _add(files, entry.stat(follow_symlinks=False))
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except OSError:
            continue
    return files


def _add(files: dict[Inode, File], status: os.stat_result) -> None:
    inode = (status.st_dev, status.st_ino)
    # The link count of a folder counts its subfolders.
    links = 1 if stat.S_ISDIR(status.st_mode) else status.st_nlink
    known = files[inode].found if inode in files else 0
    files[inode] = File(status.st_blocks * BLOCK, links, known + 1)


def total(usages: Iterable[Usage]) -> int:
    """Return the bytes that trees take together."""
    together: dict[Inode, int] = {}
    for usage in usages:
        together.update((inode, file.size) for inode, file in usage.items())
    return sum(together.values())


def freed(usages: Iterable[Usage]) -> int:
    """Return the bytes freed by deleting trees: of files without hard links elsewhere."""
    return sum(map(Removal().add, usages))


class Removal:
    """Trees to delete, one after the other."""

    def __init__(self) -> None:
        self._found = Counter[Inode]()

    def add(self, usage: Usage) -> int:
        """Return the bytes that deleting one more tree frees."""
        room = 0
        for inode, file in usage.items():
            before = self._found[inode]
            self._found[inode] += file.found
            if before < file.links <= self._found[inode]:
                room += file.size
        return room


@dataclass(frozen=True)
class FrozenImage:
    """A frozen root file system.

    Args:
        lock: its description; None if it is missing or from another version of Argosy.
        built: Unix time of freezing.
        used: Unix time of the last use by a build or a container.
        usage: sizes of the tree and its description.
        packed: size of the packed image; empty if there is none.
    """

    digest: str
    root: Path
    lock: ImageLock | None
    built: float
    used: float
    usage: Usage
    packed: Usage

    @property
    def size(self) -> int:
        """Bytes of the tree."""
        return total([self.usage])

    @property
    def packed_size(self) -> int:
        """Bytes of the packed image; 0 if there is none."""
        return total([self.packed])

    @property
    def layers(self) -> set[str]:
        """Digests of its layers; empty if its description is unknown."""
        return {*self.lock.diff_ids} if self.lock else set()


@dataclass(frozen=True)
class CachedLayer:
    """A finished build step; `step` is None if it is damaged or from another version of Argosy."""

    key: str
    folder: Path
    step: CachedStep | None
    used: float
    usage: Usage

    @property
    def diff_id(self) -> str | None:
        """The layer's digest; None if the step changed no file."""
        return self.step.diff_id if self.step else None


@dataclass(frozen=True)
class Download:
    """A downloaded blob, or part of one, of an unfinished pull."""

    path: Path
    used: float
    usage: Usage


@dataclass(frozen=True)
class Inventory:
    """The content of a store."""

    images: tuple[FrozenImage, ...]
    layers: tuple[CachedLayer, ...]
    downloads: tuple[Download, ...] = ()

    @classmethod
    def of(cls, store: Store) -> "Inventory":
        """List the content of the store, last used first."""
        images = sorted(_images(store), key=lambda image: -image.used)
        layers = sorted(_layers(store), key=lambda layer: -layer.used)
        return cls(tuple(images), tuple(layers), tuple(_downloads(store)))

    @property
    def usages(self) -> list[Usage]:
        """Usage of all images, layers and downloads."""
        images = [usage for image in self.images for usage in (image.usage, image.packed)]
        parts: tuple[CachedLayer | Download, ...] = (*self.layers, *self.downloads)
        return images + [part.usage for part in parts]

    @property
    def size(self) -> int:
        """Bytes of the whole store; shared files count once."""
        return total(self.usages)

    @property
    def cache_size(self) -> int:
        """Bytes of cached layers."""
        return total(layer.usage for layer in self.layers)

    @property
    def unused_size(self) -> int:
        """Bytes that deleting the unused layers would free."""
        return freed(layer.usage for layer in self.unused)

    @property
    def unused(self) -> list[CachedLayer]:
        """Layers of no frozen image: of other stages, or of deleted images."""
        used = {diff_id for image in self.images for diff_id in image.layers}
        return [layer for layer in self.layers if layer.diff_id not in {*used, None}]

    def shared(self, image: FrozenImage) -> set[str]:
        """Return the layers that an image shares with other images."""
        others = [other.layers for other in self.images if other is not image]
        return image.layers & {diff_id for layers in others for diff_id in layers}


def find_layers(store: Store, lock: ImageLock) -> list[tuple[str, Path, CachedStep]]:
    """Return key, `diff` folder and description of each layer of an image, the lowest first."""
    known = {}
    for folder in _folders(store.layer("")):
        found = cache.read_step(store, folder.name)
        if found and found.diff_id:
            known[found.diff_id] = (folder.name, folder / "diff", found)
    for step in lock.steps:
        if step.diff_id and step.diff_id not in known:
            raise ArgosyError(
                f"image {lock.name}: the layer of '{step.instruction[:80]}' is not in {store.path} "
                f"any more",
                f"run: argosy image build {lock.name}",
            )
    return [known[diff_id] for diff_id in lock.diff_ids]


def _images(store: Store) -> Iterator[FrozenImage]:
    for root in _folders(store.root("")):
        digest = root.name.replace("-", ":", 1)
        description = store.description(digest)
        try:
            # A frozen folder never changes.
            built = root.stat().st_ctime
            used = description.stat().st_mtime if description.exists() else built
        except FileNotFoundError:
            continue
        usage = {**measure(root), **measure(description)}
        packed = measure(store.archive(digest))
        yield FrozenImage(digest, root, _read_or_none(description), built, used, usage, packed)


def _layers(store: Store) -> Iterator[CachedLayer]:
    for folder in _folders(store.layer("")):
        step = cache.read_step(store, folder.name)
        description = folder / "layer.json"
        try:
            used = (description if description.exists() else folder).stat().st_mtime
        except FileNotFoundError:
            continue
        yield CachedLayer(folder.name, folder, step, used, measure(folder))


def _downloads(store: Store) -> Iterator[Download]:
    found = sorted(store.blobs.glob("[0-9a-f]*")) if store.blobs.is_dir() else []
    for path in found:
        with suppress(FileNotFoundError):
            yield Download(path, path.stat().st_mtime, measure(path))


def _read_or_none(description: Path) -> ImageLock | None:
    try:
        return ImageLock.read(description)
    except ArgosyError:
        return None


def _folders(place: Path) -> list[Path]:
    """Return the finished folders; names of unfinished ones begin with a dot."""
    if not place.is_dir():
        return []
    return sorted(path for path in place.iterdir() if path.is_dir() and path.name[0] != ".")

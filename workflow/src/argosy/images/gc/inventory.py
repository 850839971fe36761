"""What is in a store: frozen images, and the layers of build steps, with what they take of the disk."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from argosy.errors import ArgosyError
from argosy.images.builder import cache
from argosy.images.builder.cache import CachedStep
from argosy.images.gc.disk import Usage, freed, measure
from argosy.images.store.lockfile import ImageLock, read_lock
from argosy.images.store.store import Store


@dataclass(frozen=True)
class FrozenImage:
    """A frozen root file system.

    Args:
        lock: its description; None where it is missing or from another version of Argosy.
        built: when it was frozen, in seconds of Unix time, as `used`.
        used: when a build or a container used it last.
        usage: of the root and its description.
        packed: of the file that nodes unpack; nothing where there is none.
    """

    digest: str
    root: Path
    lock: ImageLock | None
    built: float
    used: float
    usage: Usage
    packed: Usage


@dataclass(frozen=True)
class CachedLayer:
    """A finished build step; `step` is None where it is damaged or from another version of Argosy."""

    key: str
    folder: Path
    step: CachedStep | None
    used: float
    usage: Usage

    @property
    def diff_id(self) -> str | None:
        """The layer's digest; None where the step changed no file."""
        return self.step.diff_id if self.step else None


@dataclass(frozen=True)
class Download:
    """A blob of an image whose pull did not come to its end, or a part of one."""

    path: Path
    used: float
    usage: Usage


@dataclass(frozen=True)
class Inventory:
    """All of a store."""

    images: tuple[FrozenImage, ...]
    layers: tuple[CachedLayer, ...]
    downloads: tuple[Download, ...] = ()

    @property
    def usages(self) -> list[Usage]:
        """Of everything."""
        images = [usage for image in self.images for usage in (image.usage, image.packed)]
        parts: tuple[CachedLayer | Download, ...] = (*self.layers, *self.downloads)
        return images + [part.usage for part in parts]

    @property
    def unused(self) -> list[CachedLayer]:
        """Layers with files that are in no frozen image: of other stages, or of images that are gone."""
        used = {diff_id for image in self.images for diff_id in diff_ids(image.lock)}
        return [layer for layer in self.layers if layer.diff_id not in {*used, None}]

    def shared(self, image: FrozenImage) -> set[str]:
        """Return the layers of an image that another one has, too."""
        others = [other.lock for other in self.images if other is not image]
        return diff_ids(image.lock) & {diff_id for lock in others for diff_id in diff_ids(lock)}

    def freed_by(self, layers: Iterable[CachedLayer]) -> int:
        """Return the room that removing layers would give back."""
        return freed(layer.usage for layer in layers)


def read_inventory(store: Store) -> Inventory:
    """Return what is in the store at this moment, those that were used last first."""
    images = sorted(_images(store), key=lambda image: -image.used)
    layers = sorted(_layers(store), key=lambda layer: -layer.used)
    return Inventory(tuple(images), tuple(layers), tuple(_downloads(store)))


def diff_ids(lock: ImageLock | None) -> set[str]:
    """Return the layers that an image is made of."""
    return {step.diff_id for step in lock.steps if step.diff_id} if lock else set()


def find_layers(store: Store, lock: ImageLock) -> list[tuple[str, Path, CachedStep]]:
    """Key, files and description of each layer of an image, the lowest first.

    Raises:
        ArgosyError: when one is not in the store any more.
    """
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
    return [known[step.diff_id] for step in lock.steps if step.diff_id]


def _images(store: Store) -> Iterator[FrozenImage]:
    for root in _folders(store.root("")):
        digest = root.name.replace("-", ":", 1)
        description = store.description(digest)
        try:
            # Nothing changes the folder after it was frozen.
            built = root.stat().st_ctime
            used = description.stat().st_mtime if description.exists() else built
        except FileNotFoundError:
            continue
        usage = {**measure(root), **measure(description)}
        packed = measure(store.archive(digest))
        yield FrozenImage(digest, root, _read(description), built, used, usage, packed)


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


def _read(description: Path) -> ImageLock | None:
    try:
        return read_lock(description)
    except ArgosyError:
        return None


def _folders(place: Path) -> list[Path]:
    """Return the finished ones; what is being made has a name with a dot."""
    if not place.is_dir():
        return []
    return sorted(path for path in place.iterdir() if path.is_dir() and path.name[0] != ".")

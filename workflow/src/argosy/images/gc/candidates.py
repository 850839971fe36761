"""What in a store no image.lock of a project needs, and when it was used last."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from argosy.images.builder import history
from argosy.images.gc.disk import Usage
from argosy.images.gc.inventory import CachedLayer, Download, FrozenImage, Inventory, diff_ids
from argosy.images.store.lockfile import ImageLock
from argosy.images.store.store import Store


@dataclass(frozen=True)
class Candidate:
    """Something that may go."""

    title: str
    places: tuple[Path, ...]
    used: float
    usage: Usage
    digest: str = ""
    """Of an image."""


def candidates(store: Store, inventory: Inventory, locks: Sequence[ImageLock]) -> list[Candidate]:
    """Return what no image.lock needs, those that were used least recently first."""
    digests = {lock.digest for lock in locks}
    needed = {diff_id for lock in locks for diff_id in diff_ids(lock)}
    keys = {key for lock in locks for chain in _chains(store, lock.name) for key in chain}
    used = _last_use(store, inventory)
    found = [
        (image.used, 0, _of_image(store, image))
        for image in inventory.images
        if image.digest not in digests
    ]
    found += [
        (used[layer.key][0], used[layer.key][1], _of_layer(layer, used[layer.key][0]))
        for layer in inventory.layers
        if layer.diff_id not in needed and layer.key not in keys
    ]
    found += [(one.used, 0, _of_download(one)) for one in inventory.downloads]
    return [candidate for _, _, candidate in sorted(found, key=lambda one: one[:2])]


def _last_use(store: Store, inventory: Inventory) -> dict[str, tuple[float, int]]:
    """Return when a layer was used last, itself or one above it, and its place from above.

    A layer without the ones below it must not stay: those would be made again, and not be the same.
    """
    images: dict[str, float] = {}
    for image in inventory.images:
        for diff_id in diff_ids(image.lock):
            images[diff_id] = max(image.used, images.get(diff_id, 0.0))
    # A container uses the image alone. Without its layers no room is won as long as it is there.
    used = {
        layer.key: (max(layer.used, images.get(layer.diff_id or "", 0.0)), 0)
        for layer in inventory.layers
    }
    names = sorted(path.stem for path in store.history("").parent.glob("*.json"))
    for chain in [chain for name in names for chain in _chains(store, name)]:
        latest, place = 0.0, 0
        for key in reversed(chain):
            if key in used:
                latest, place = max(latest, used[key][0]), max(place + 1, used[key][1])
                used[key] = (latest, place)
    return used


def _chains(store: Store, image: str) -> list[list[str]]:
    """Return the keys of an image's last build."""
    last = history.read(store, image)
    return [[step.key for step in chain.steps] for chain in last.chains] if last else []


def _of_image(store: Store, image: FrozenImage) -> Candidate:
    name = image.lock.name if image.lock else "of another version of Argosy, or damaged,"
    # The description goes first: without it nobody takes the root for a whole one.
    places = (
        store.description(image.digest),
        store.archive(image.digest),
        # Beside trees that earlier versions ran below proot.
        image.root.with_name(f"{image.root.name}.attributes"),
        image.root,
    )
    usage = {**image.usage, **image.packed}
    return Candidate(f"image {name} {image.digest[:19]}", places, image.used, usage, image.digest)


def _of_layer(layer: CachedLayer, used: float) -> Candidate:
    title = layer.step.instruction if layer.step else "of another version of Argosy, or damaged"
    shown = title if len(title) <= 70 else title[:69] + "…"
    return Candidate(f"step {layer.key[:12]} {shown}", (layer.folder,), used, layer.usage)


def _of_download(download: Download) -> Candidate:
    title = f"download {download.path.name[:12]} of a pull that was not finished"
    return Candidate(title, (download.path,), download.used, download.usage)

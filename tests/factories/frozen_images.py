"""Make layers and images in stores without a build."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from argosy_images.builder import cache
from argosy_images.builder.cache import CachedStep
from argosy_images.oci import ImageConfig
from argosy_images.rootfs.freeze import GrowingTree
from argosy_images.rootfs.layers import Change, mark_for_overlay, read_overlay
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store


def make_layer(
    store: Store, key: str, files: Mapping[str, str], removals: Change | None = None
) -> CachedStep:
    """Make a finished step with these files and removals."""

    def make(diff: Path) -> Change:
        diff.mkdir()
        for path, content in files.items():
            (diff / path).parent.mkdir(parents=True, exist_ok=True)
            (diff / path).write_text(content)
        assert removals is None or mark_for_overlay(diff, removals)
        return read_overlay(diff)

    return cache.write_layer(store, key, f"COPY {' '.join(files)} /", {}, make)


def make_image(store: Store, project: Path, name: str, keys: Sequence[str]) -> ImageLock:
    """Make a frozen image of these layers, locked in the project as `name`."""
    found = [cache.read_step(store, key) for key in keys]
    steps = [(step.instruction, step.diff_id) for step in found if step]
    lock = ImageLock.of(name, ImageConfig(labels={"name": name}), steps, "scratch", "scratch")
    layers = [cache.read_layer(store, key) for key in keys]
    with store.workspace(name) as work:
        GrowingTree(work / "root").finish(layers, store.root(lock.digest))
    lock.write(store.description(lock.digest))
    lock.write(project / "resources" / "images" / name / "image.lock")
    return lock


def unlock(project: Path, name: str) -> None:
    """Remove the image's lock from the project."""
    (project / "resources" / "images" / name / "image.lock").unlink()


def last_used(path: Path, days_ago: float, now: float) -> None:
    """Set the last use of a layer or image."""
    moment = now - days_ago * 86400
    os.utime(path, (moment, moment))

"""Takes an image of another tool, in an OCI or Docker archive, into the store and locks it.

What the archive says is proved before anything is used: each file by its digest, each layer by its
diff_id. Owners and extended attributes are not kept, as in images built here, so that a layer may get
another digest than it had, and an image of another tool does. One that was exported here has the digest
that it had. `udocker load` takes the exported archives, too, as Docker's.
"""

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import ValidationError

from argosy.errors import ArgosyError
from argosy.images.build import cache
from argosy.images.config import ImageConfig
from argosy.images.exchange.incoming import IncomingImage, IncomingLayer, describe
from argosy.images.exchange.opening import Archive, opened
from argosy.images.exchange.rights import unhindered
from argosy.images.exchange.streams import DAMAGE, Hashing, decompressed
from argosy.images.exchange.unpacking import unpack
from argosy.images.flatten import flatten
from argosy.images.freeze import freeze, put_in_place
from argosy.images.layers import Change, Layer
from argosy.images.lockfile import ImageLock, LockedBase, LockedStep, lock_path, write_lock
from argosy.images.store import Store, remove_tree

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
KEY_FORMAT = "argosy-import-1"


def import_image(store: Store, project: Path, file: Path, name: str) -> ImageLock:
    """Make the image of the archive the project's image `name`.

    It may be one that the project builds elsewhere; the workflow builds it here only when a file that it
    is made of is newer than its image.lock.

    Raises:
        ArgosyError: naming file and member, when the archive is damaged or not to be trusted. Nothing
            is left in the store then.
    """
    if not NAME.fullmatch(name):
        raise ArgosyError(f"{name!r}: a name consists of letters, digits and . _ -")
    with store.changing(name):
        work = store.work(name)
        remove_tree(work)
        work.mkdir(parents=True, mode=0o700)
        try:
            text = unhindered(lambda: _take(store, work, file, name).model_dump_json())
        finally:
            remove_tree(work)
        lock = ImageLock.model_validate_json(text)
        write_lock(store.description(lock.digest), lock)
        write_lock(lock_path(project, name), lock)
    return lock


def _take(store: Store, work: Path, file: Path, name: str) -> ImageLock:
    """Unpack the archive into the store and freeze it."""
    with opened(file) as archive:
        image = describe(archive)
        config = _config(archive, image)
        keys = _keys(image.layers)
        _unpack_missing(store, work, archive, image.layers, keys)
    steps = [cache.read_step(store, key) for key in keys]
    diff_ids = [step.diff_id for step in steps if step and step.diff_id]
    lock = ImageLock(
        name=name,
        digest=config.digest(diff_ids),
        architecture=config.to_oci(())["architecture"],
        base=LockedBase(
            reference=image.reference, source="file", diff_id=diff_ids[0] if diff_ids else ""
        ),
        steps=tuple(
            LockedStep(instruction=layer.instruction, diff_id=step.diff_id if step else None)
            for layer, step in zip(image.layers, steps, strict=True)
        ),
        config=config,
    )
    if not store.root(lock.digest).is_dir():
        put_in_place(work / "root", store.root(lock.digest))
    return lock


def _freeze(file: Path, layers: Sequence[Layer], making: Path) -> None:
    try:
        flatten(layers, making)
        freeze(making)
    except OSError as problem:
        # For instance an /etc that is a file.
        raise ArgosyError(
            f"{file}: the image cannot be used: {problem.filename}: {problem.strerror}"
        ) from None


def _config(archive: Archive, image: IncomingImage) -> ImageConfig:
    try:
        values = image.config.get("config") or {}
        if isinstance(values.get("Env"), str):
            raise TypeError
        config = ImageConfig.from_oci(values)
        return config.model_copy(update={"author": str(image.config.get("author") or "")})
    except (ValidationError, AttributeError, TypeError, ValueError):
        raise ArgosyError(f"{archive.path}: its configuration is not one of an image") from None


def _keys(layers: Sequence[IncomingLayer]) -> list[str]:
    """The layers' keys: each stands for its content and all that is below it."""
    keys: list[str] = []
    for layer in layers:
        described = json.dumps([KEY_FORMAT, keys[-1] if keys else "", layer.diff_id])
        keys.append(hashlib.sha256(described.encode()).hexdigest()[:40])
    return keys


def _unpack_missing(
    store: Store, work: Path, archive: Archive, layers: Sequence[IncomingLayer], keys: Sequence[str]
) -> None:
    """Unpack the layers that are not in the store, and freeze all of them in `work`.

    They go into the store only then, when nothing can be wrong with the image any more.
    """
    all_layers: list[Layer] = []
    made: list[tuple[str, IncomingLayer, Change]] = []
    for layer, key in zip(layers, keys, strict=True):
        if cache.read_step(store, key):
            all_layers.append(cache.read_layer(store, key))
            continue
        diff = work / key
        change = _unpack(archive, layer, diff, all_layers)
        all_layers.append(Layer.of(diff, change))
        made.append((key, layer, change))
    _freeze(archive.path, all_layers, work / "root")
    for key, layer, change in made:
        inputs = {"diff_id": layer.diff_id}
        cache.write_layer(store, key, layer.instruction, inputs, _moving(work / key, change))


def _moving(source: Path, change: Change) -> Callable[[Path], Change]:
    def move(diff: Path) -> Change:
        source.rename(diff)
        return change

    return move


def _unpack(archive: Archive, layer: IncomingLayer, diff: Path, below: Sequence[Layer]) -> Change:
    """Unpack one layer, and prove that it is the one that the image names."""
    where = f"{archive.path}: {layer.member}"
    try:
        with archive.open(layer.member) as packed:
            outer = Hashing(packed)
            with decompressed(outer, where) as plain:
                inner = Hashing(plain)
                change = unpack(inner, diff, below, where)
                diff_id = inner.drain()
            digest = outer.drain()
    except DAMAGE as problem:
        raise ArgosyError(f"{where}: damaged or cut off: {problem}") from None
    if layer.digest not in (None, digest):
        raise ArgosyError(f"{where}: damaged: its digest is {digest}")
    if diff_id != layer.diff_id:
        raise ArgosyError(f"{where}: not the layer {layer.diff_id}: its content is {diff_id}")
    return change

"""Import an image from an archive, a folder or a registry into the store, and lock it.

Each file is verified by its digest and each layer by its diff_id before use. Owners and extended attributes
are dropped, as in builds, so images of other tools get a new digest. Images that Argosy exported keep
their digest.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from argosy_common.errors import ArgosyError, some
from argosy_images.builder import cache
from argosy_images.interchange.incoming import IncomingImage, IncomingLayer, describe
from argosy_images.interchange.opening import Archive, Folder, opened
from argosy_images.interchange.sif import is_sif, unpack_sif
from argosy_images.interchange.streams import Say, Seldom, silent
from argosy_images.interchange.unpacking import config_of, unpack_layer
from argosy_images.namespaces import unhindered
from argosy_images.oci import ImageConfig
from argosy_images.registry.pulling import pull, reach
from argosy_images.registry.reference import TRANSPORT, Reference, split_source
from argosy_images.registry.retry import Patience
from argosy_images.rootfs.freeze import make_frozen, put_in_place, usable_only
from argosy_images.rootfs.layers import Change, Layer
from argosy_images.store.lockfile import NAME, ImageLock
from argosy_images.store.scratch import sweep
from argosy_images.store.store import Store
from argosy_images.udocker_repository.registering import UdockerRepository

KEY_FORMAT = "argosy-import-1"


@dataclass(frozen=True)
class _Import:
    """The target of an import: the store, a working folder in it, and the image's name."""

    store: Store
    work: Path
    name: str
    say: Say


def import_image(
    store: Store,
    project: Path,
    file: Path,
    name: str,
    *,
    wanted: str = "",
    say: Say = silent,
) -> ImageLock:
    """Import an archive, OCI image layout or SIF file as the project's image `name`.

    Args:
        wanted: the name or digest of one image of several.
        say: receives progress messages every few seconds.

    Raises:
        ArgosyError: naming file and member, if the archive is damaged or unsafe. The store is unchanged.
    """
    with _importing(store, name, say) as to:

        def take(archive: Archive, image: IncomingImage) -> str:
            return _take(to, archive, image, "file")

        text = use_file(store, file, to.work / "archive", say, take, wanted=wanted)
        return _lock(store, project, text)


def use_file(
    store: Store,
    file: Path,
    work: Path,
    say: Say,
    use: Callable[[Archive, IncomingImage], str],
    *,
    wanted: str = "",
) -> str:
    """Open an archive, OCI image layout or SIF file; call `use` by `unhindered`, and return its result.

    Args:
        work: a new folder for files that are needed meanwhile.
        wanted: the name or digest of one image of several.
    """
    if is_sif(file):
        if wanted:
            raise ArgosyError(f"{file}: a SIF file holds one image", f"leave out :{wanted}")
        sif = unpack_sif(store, file, work, say)
        return unhindered(lambda: use(sif, describe(sif)))

    def use_archive() -> str:
        with opened(file, work, say) as archive:
            return use(archive, describe(archive, wanted))

    return unhindered(use_archive)


def import_from_registry(
    store: Store, project: Path, reference: Reference, name: str, say: Say
) -> ImageLock:
    """Import an image of a registry as the project's image `name`; raises as `import_image`.

    If the pull fails, its downloads are kept.
    """
    with _importing(store, name, say) as to:
        client = reach(reference, Patience(say=say))
        pulled = pull(store, client, to.work / "pulled", say)
        say(f"unpacking {pulled.reference}")
        archive = Folder(pulled.folder, str(pulled.reference))
        text = unhindered(lambda: _take(to, archive, describe(archive), "registry"))
        lock = _lock(store, project, text)
        pulled.forget_downloads()
    return lock


@contextmanager
def _importing(store: Store, name: str, say: Say) -> Iterator[_Import]:
    """Lock the image's name, and make a working folder in the store."""
    if not NAME.fullmatch(name):
        raise ArgosyError(f"{name!r}: a name may contain only letters, digits and . _ -")
    sweep()
    with store.changing(name), store.workspace(name) as work:
        yield _Import(store, work, name, say)


def _lock(store: Store, project: Path, text: str) -> ImageLock:
    """Write the lock files of an image from their text."""
    lock = ImageLock.model_validate_json(text)
    lock.write(store.description(lock.digest))
    lock.write(ImageLock.path_of(project, lock.name))
    UdockerRepository(store).show(lock)
    return lock


def _take(
    to: _Import, archive: Archive, image: IncomingImage, source: Literal["file", "registry"]
) -> str:
    """Unpack the image's layers into the store and freeze them; return the text of the image.lock."""
    config = config_of(archive, image)
    _unpack_missing(to, archive, image, config)
    found = [cache.read_step(to.store, key) for key in _keys(image.layers)]
    steps = [
        (layer.instruction, step.diff_id if step else None)
        for layer, step in zip(image.layers, found, strict=True)
    ]
    lock = ImageLock.of(to.name, config, steps, image.reference, source)
    if not to.store.root(lock.digest).is_dir():
        put_in_place(to.work / "root", to.store.root(lock.digest))
    return lock.model_dump_json()


def _keys(layers: Sequence[IncomingLayer]) -> list[str]:
    """Return the keys of the layers, each derived from its content and the layers below."""
    keys: list[str] = []
    for layer in layers:
        described = json.dumps([KEY_FORMAT, keys[-1] if keys else "", layer.diff_id])
        keys.append(hashlib.sha256(described.encode()).hexdigest()[:40])
    return keys


def _unpack_missing(
    to: _Import, archive: Archive, image: IncomingImage, config: ImageConfig
) -> None:
    """Unpack missing layers and freeze the image in `work`; then move the layers into the store.

    Nothing reaches the store before the whole image is verified.
    """
    all_layers: list[Layer] = []
    made: list[tuple[str, IncomingLayer, Change]] = []
    seldom = Seldom(to.say)
    for layer, key in zip(image.layers, _keys(image.layers), strict=True):
        seldom(f"{archive.title}: {len(all_layers)} of {len(image.layers)} layers unpacked")
        if cache.read_step(to.store, key):
            all_layers.append(cache.read_layer(to.store, key))
            continue
        diff = to.work / key
        change = unpack_layer(archive, layer, diff, all_layers)
        all_layers.append(Layer(diff, change))
        made.append((key, layer, change))
    with usable_only(f"{archive.title}: the image cannot be used"):
        make_frozen(all_layers, to.work / "root", config.workdir, config.volumes)
    for key, layer, change in made:
        inputs = {"diff_id": layer.diff_id}
        move = partial(_move, to.work / key, change)
        cache.write_layer(to.store, key, layer.instruction, inputs, move, say=to.say)


def _move(source: Path, change: Change, diff: Path) -> Change:
    source.rename(diff)
    return change


PREFIX = "udocker:"
_NAME = re.compile(r"([A-Za-z0-9_][A-Za-z0-9._/-]*?)(?::([A-Za-z0-9_][A-Za-z0-9._-]*))?")


def tag_folder(text: str, variables: Mapping[str, str] = os.environ) -> Path:
    """Return udocker's folder of the image `udocker:NAME[:TAG]`.

    Raises:
        ArgosyError: if it is missing, with the names of the existing images.
    """
    repos = Path(variables.get("UDOCKER_DIR") or Path.home() / ".udocker") / "repos"
    found = _NAME.fullmatch(text.removeprefix(PREFIX))
    if not found or ".." in text:
        raise ArgosyError(
            f"{text!r}: an image of udocker is written {PREFIX}NAME or {PREFIX}NAME:TAG"
        )
    name, tag = found[1], found[2] or "latest"
    for place in (repos / name / tag, repos / "library" / name / tag):
        if (place / "TAG").is_file():
            return place
    there = sorted(
        f"{path.parent.parent.relative_to(repos)}:{path.parent.name}" for path in repos.rglob("TAG")
    )
    raise ArgosyError(
        f"{text}: {repos} has no such image; it has {some(there) or 'no image'}",
        "set UDOCKER_DIR to udocker's folder, or pull the image: "
        f"argosy image import docker://{name}:{tag} NAME",
    )


def take_image(
    store: Store, project: Path, source: str, name: str, say: Callable[[str], None]
) -> ImageLock:
    """Import `source`, in any notation, as the project's image `name`; raises as `import_image`."""
    if source.startswith(TRANSPORT):
        return import_from_registry(store, project, Reference.parse(source), name, say)
    if source.startswith(PREFIX) and not Path(source).exists():
        return import_image(store, project, tag_folder(source), name, say=say)
    file, wanted = split_source(source)
    if not file.exists():
        raise ArgosyError(
            f"{source}: No such file or directory",
            f"name a file or folder without a prefix, {TRANSPORT}REFERENCE for a registry, or "
            f"{PREFIX}NAME:TAG for udocker's folder",
        )
    return import_image(store, project, file, name, wanted=wanted, say=say)


def check_taken(project: Path, name: str, source: str) -> None:
    """Check an experiment's image source before anything is downloaded.

    Raises:
        ArgosyError: if `source` is invalid, or the project builds or has locked another image of this name.
    """
    try:
        reference = Reference.parse(source) if source.startswith(TRANSPORT) else None
    except ArgosyError as problem:
        raise problem.at("config.yaml: image") from None
    if (project / "containers" / name).exists():
        raise ArgosyError(
            f"{source} would be named {name}, and containers/{name} exists already",
            f"choose another name: argosy image import {source} NAME",
        )
    path = ImageLock.path_of(project, name)
    is_archive = not source.startswith((TRANSPORT, PREFIX))
    if is_archive and not split_source(str(project / source))[0].exists():
        kinds = f"a folder of containers/, {TRANSPORT}HOST/NAME:TAG, {PREFIX}NAME:TAG or an archive"
        was_taken = f"write image: {name}, which was imported from it"
        raise ArgosyError(
            f"{source}: there is no such archive",
            was_taken if path.is_file() else f"an image is {kinds}",
        )
    if not path.is_file():
        return
    base = ImageLock.read(path).base
    if base.source != ("registry" if reference else "file") or (
        reference and not _is_of(Reference.parse(base.reference), reference)
    ):
        raise ArgosyError(
            f"{path.relative_to(project)}: locks {base.reference}, but config.yaml names {source}",
            f"remove the file, or write image: {name} to use it",
        )


def _is_of(locked: Reference, wanted: Reference) -> bool:
    """Return whether a locked image matches the reference, by digest or else by tag."""
    same = (locked.host, locked.repository) == (wanted.host, wanted.repository)
    return same and (locked.digest == wanted.digest if wanted.digest else locked.tag == wanted.tag)

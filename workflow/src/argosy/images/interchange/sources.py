"""Where an image may be taken from: a registry, udocker's folder, an archive or a folder."""

from collections.abc import Callable
from pathlib import Path

from argosy.errors import ArgosyError
from argosy.images.interchange.importing import import_from_registry, import_image
from argosy.images.interchange.udocker_images import PREFIX, tag_folder
from argosy.images.registry.reference import TRANSPORT, Reference
from argosy.images.store.lockfile import ImageLock, lock_path, read_lock
from argosy.images.store.store import Store


def take_image(
    store: Store, project: Path, source: str, name: str, say: Callable[[str], None]
) -> ImageLock:
    """Make what `source` names the project's image `name`.

    Raises:
        ArgosyError: as `import_image` and `import_from_registry`, and when it names nothing of the kind.
    """
    if source.startswith(TRANSPORT):
        return import_from_registry(store, project, Reference.parse(source), name, say)
    if source.startswith(PREFIX) and not Path(source).exists():
        return import_image(store, project, tag_folder(source), name, say=say)
    if "://" in source and not Path(source).exists():
        raise ArgosyError(
            f"{source}: images come from a file, a folder, a registry by {TRANSPORT}REFERENCE, or "
            f"udocker's folder by {PREFIX}NAME:TAG"
        )
    file, wanted = _parts(source)
    return import_image(store, project, file, name, wanted=wanted, say=say)


def _parts(source: str) -> tuple[Path, str]:
    """Return the file or folder that there is, and the name behind a colon of an image in it."""
    end = len(source)
    while end > 0 and not Path(source[:end]).exists():
        end = source.rfind(":", 0, end)
    return (Path(source[:end]), source[end + 1 :]) if end > 0 else (Path(source), "")


def check_taken(project: Path, name: str, source: str) -> None:
    """Refuse an image that cannot be meant, before anything is downloaded.

    Raises:
        ArgosyError: when `source` is written wrongly, the project builds an image of this name, or has
            locked another one under it.
    """
    try:
        reference = Reference.parse(source) if source.startswith(TRANSPORT) else None
    except ArgosyError as problem:
        raise problem.at("config.yaml: image") from None
    if (project / "containers" / name).exists():
        raise ArgosyError(
            f"{source} would be called {name}, and containers/{name} is there too",
            f"take it under another name: argosy image import {source} NAME",
        )
    path = lock_path(project, name)
    is_archive = not source.startswith((TRANSPORT, PREFIX))
    if is_archive and not _parts(str(project / source))[0].exists():
        kinds = f"a folder of containers/, {TRANSPORT}HOST/NAME:TAG, {PREFIX}NAME:TAG or an archive"
        was_taken = f"write image: {name}, which was taken from it"
        raise ArgosyError(
            f"{source}: there is no such archive",
            was_taken if path.is_file() else f"an image is {kinds}",
        )
    if not path.is_file():
        return
    base = read_lock(path).base
    if base.source != ("registry" if reference else "file") or (
        reference and not _is_of(Reference.parse(base.reference), reference)
    ):
        raise ArgosyError(
            f"{path.relative_to(project)}: is of {base.reference}, and config.yaml names {source}",
            f"remove the file, or write image: {name} if it is what you want",
        )


def _is_of(locked: Reference, wanted: Reference) -> bool:
    """Return whether what was pulled is what is named; a tag may have moved since."""
    same = (locked.host, locked.repository) == (wanted.host, wanted.repository)
    return same and (locked.digest == wanted.digest if wanted.digest else locked.tag == wanted.tag)

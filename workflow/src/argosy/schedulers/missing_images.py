"""Checks before submission that the images of scripts are in the store."""

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from argosy.run_folder.folder import SCRIPT
from argosy.shipped.files import image_folder
from argosy_common.errors import ArgosyError
from argosy_common.reading import read_text, site_of
from argosy_images import ImageLock, Store

_STORE = re.compile(rf"^export {Store.VARIABLE}=(.+)$", re.MULTILINE)
_DIGEST = re.compile(r"^\s*--digest (sha256:[0-9a-f]{64})$", re.MULTILINE)
_STAGED = re.compile(r"^\s*--stage (?:node|memory)\b", re.MULTILINE)


@dataclass(frozen=True)
class WantedImage:
    """A script's image: its store, its digest, and whether nodes unpack it."""

    store: Store
    digest: str
    staged: bool


def check_images(run_dirs: Iterable[Path]) -> None:
    """Check the images of all runs.

    Raises:
        ArgosyError: with the first missing image and the remedy.
    """
    seen = set()
    for run_dir in run_dirs:
        wanted = wanted_image(run_dir)
        if wanted and wanted not in seen:
            seen.add(wanted)
            if problem := _what_is_missing(run_dir, wanted):
                raise ArgosyError(problem)


def missing_image(run_dir: Path) -> str | None:
    """Return the missing part of a run's image and the remedy; None if the image is complete."""
    wanted = wanted_image(run_dir)
    return _what_is_missing(run_dir, wanted) if wanted else None


def wanted_image(run_dir: Path) -> WantedImage | None:
    """Return the script's image; None if it needs none."""
    text = read_text(run_dir / SCRIPT, site_of(run_dir))
    store, digest = _STORE.search(text), _DIGEST.search(text)
    if not store or not digest:
        return None
    return WantedImage(Store(Path(shlex.split(store[1])[0])), digest[1], bool(_STAGED.search(text)))


def _what_is_missing(run_dir: Path, wanted: WantedImage) -> str | None:
    store, digest = wanted.store, wanted.digest
    project, where = run_dir.parents[3], "/".join(run_dir.parts[-2:])
    name = _image_name(project, digest)
    there = store.description(digest).is_file()
    if there and wanted.staged and not store.archive(digest).is_file():
        return (
            f"{where}: image {name} is not packed for its nodes ({store.archive(digest)} does not exist); "
            f"pack it: argosy image pack {name}"
        )
    if there and (wanted.staged or store.root(digest).is_dir()):
        return None
    built = image_folder(project, name).is_dir()
    what = f"build it again: argosy image build {name}"
    if not built:
        what = f"import it again: argosy image import SOURCE {name}"
    return (
        f"{ImageLock.path_of(Path(), name)}: {where} runs in this image, {digest[:19]}…, which is not in "
        f"the store {store.path}, perhaps after a prune; {what}"
    )


def _image_name(project: Path, digest: str) -> str:
    """Return the name of the project's image whose lock has this digest; else NAME."""
    for path in sorted(ImageLock.path_of(project, "x").parents[1].glob("*/image.lock")):
        if digest in path.read_text(encoding="utf-8", errors="replace"):
            return path.parent.name
    return "NAME"

"""Whether the images that scripts name are in the store, before a job asks for them on its nodes."""

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from argosy.errors import ArgosyError
from argosy.images.store.lockfile import lock_path
from argosy.images.store.store import STORE_VARIABLE, Store
from argosy.reading import read_text, site_of
from argosy.run_folder.folder import SCRIPT

_STORE = re.compile(rf"^export {STORE_VARIABLE}=(.+)$", re.MULTILINE)
_DIGEST = re.compile(r"^\s*--digest (sha256:[0-9a-f]{64})$", re.MULTILINE)
_STAGED = re.compile(r"^\s*--stage (?:node|memory)\b", re.MULTILINE)


@dataclass(frozen=True)
class _Wanted:
    """An image by digest, the store that a script takes it from, and whether its nodes unpack it."""

    store: Store
    digest: str
    staged: bool


def check_images(run_dirs: Iterable[Path]) -> None:
    """Look for the images of all runs.

    Raises:
        ArgosyError: naming the first that is not there, and what to do.
    """
    seen = set()
    for run_dir in run_dirs:
        wanted = _wanted_image(run_dir)
        if wanted and wanted not in seen:
            seen.add(wanted)
            if problem := _what_is_missing(run_dir, wanted):
                raise ArgosyError(problem)


def missing_image(run_dir: Path) -> str | None:
    """Return what is not there of the image that a run's script names, and what to do; None: all is."""
    wanted = _wanted_image(run_dir)
    return _what_is_missing(run_dir, wanted) if wanted else None


def uses_image_in_place(run_dir: Path) -> bool:
    """Return whether the run's nodes have its image from the store, and unpack none."""
    wanted = _wanted_image(run_dir)
    return wanted is not None and not wanted.staged


def _wanted_image(run_dir: Path) -> _Wanted | None:
    """Return what the script says; None where it needs no image."""
    text = read_text(run_dir / SCRIPT, site_of(run_dir))
    store, digest = _STORE.search(text), _DIGEST.search(text)
    if not store or not digest:
        return None
    return _Wanted(Store(Path(shlex.split(store[1])[0])), digest[1], bool(_STAGED.search(text)))


def _what_is_missing(run_dir: Path, wanted: _Wanted) -> str | None:
    store, digest = wanted.store, wanted.digest
    project, where = run_dir.parents[3], "/".join(run_dir.parts[-2:])
    name = _image_name(project, digest)
    there = store.description(digest).is_file()
    if there and wanted.staged and not store.archive(digest).is_file():
        return (
            f"{where}: image {name} is not packed for its nodes ({store.archive(digest)} is not there); "
            f"pack it: argosy image pack {name}"
        )
    if there and (wanted.staged or store.root(digest).is_dir()):
        return None
    built = (project / "containers" / name).is_dir()
    what = f"build it again: argosy image build {name}"
    if not built:
        what = f"import it again: argosy image import SOURCE {name}"
    return (
        f"{lock_path(Path(), name)}: {where} runs in this image, {digest[:19]}…, which is not in the store "
        f"{store.path}, pruned perhaps; {what}"
    )


def _image_name(project: Path, digest: str) -> str:
    """Return the image whose lock in the project has this digest."""
    for path in sorted(lock_path(project, "x").parents[1].glob("*/image.lock")):
        if digest in path.read_text(encoding="utf-8", errors="replace"):
            return path.parent.name
    return "NAME"

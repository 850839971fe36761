"""Notes in the store of images that the image of a run is in use, from its submission to its end."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from argosy.errors import ArgosyError
from argosy.images import Store, end_use, note_use
from argosy.run_folder.folder import RunFolder
from argosy.run_folder.models import RunFolderError


def note_uses(run_dirs: Iterable[Path]) -> None:
    """Note it of runs that are about to be submitted; nothing is pruned meanwhile.

    Raises:
        ArgosyError: when somebody has pruned or built for hours.
    """
    wanted = [*_images(run_dirs)]
    for store in {store for _, store, _ in wanted if store.is_writable}:
        # Whoever prunes at this moment has looked already: the submission finds what is left.
        with store.locked("prune"):
            for run_dir, _, digest in (each for each in wanted if each[1] == store):
                note_use(store, digest, str(run_dir))


def end_uses(run_dirs: Iterable[Path]) -> None:
    """Take it back of runs whose jobs have ended."""
    for run_dir, store, digest in _images(run_dirs):
        end_use(store, digest, str(run_dir))


def _images(run_dirs: Iterable[Path]) -> Iterator[tuple[Path, Store, str]]:
    """Yield the runs that have an image, with its store and digest."""
    for run_dir in run_dirs:
        with suppress(RunFolderError, ArgosyError):
            if image := RunFolder(run_dir).spec.image:
                yield run_dir, Store.of_project(run_dir.parents[3]), image.digest

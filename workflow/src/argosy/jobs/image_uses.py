"""Notes in the store of images that the image of a run is in use, from its submission to its end."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from argosy.errors import ArgosyError
from argosy.images import Store, end_use, note_use
from argosy.run_folder.folder import RunFolder
from argosy.run_folder.models import RunFolderError


def note_uses(runs: Iterable[RunFolder]) -> None:
    """Note it of runs that are about to be submitted; nothing is pruned meanwhile.

    Raises:
        ArgosyError: when somebody has pruned or built for hours.
    """
    wanted = [*_images(runs)]
    for store in {store for _, store, _ in wanted if store.is_writable}:
        # Whoever prunes at this moment has looked already: the submission finds what is left.
        with store.locked("prune"):
            for run_dir, _, digest in (each for each in wanted if each[1] == store):
                note_use(store, digest, str(run_dir))


def end_uses(runs: Iterable[RunFolder]) -> None:
    """Take it back of runs whose jobs have ended."""
    for run_dir, store, digest in _images(runs):
        end_use(store, digest, str(run_dir))


def _images(runs: Iterable[RunFolder]) -> Iterator[tuple[Path, Store, str]]:
    """Yield the runs that have an image, with its store and digest."""
    for run in runs:
        with suppress(RunFolderError, ArgosyError):
            if image := run.spec.image:
                yield run.path, Store.of_project(run.path.parents[3]), image.digest

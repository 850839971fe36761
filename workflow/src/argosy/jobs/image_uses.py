"""The images of runs: notes in the store that they are in use, and jobs that are slow to load theirs."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from argosy.run_folder.folder import RunFolder
from argosy.run_folder.models import RunFolderError
from argosy.schedulers.missing_images import uses_image_in_place
from argosy_common.errors import ArgosyError
from argosy_images import Store

CALLS_PER_NODE = 16_000
"""Calls on files, from a container's start to PyTorch and Horovod loaded, where the image is used in place;
`make bench-file-calls` counts them."""

MOST_CALLS = 1_000_000
"""Of a job, without a word: metadata servers answer some tens of thousands a second, for all users."""


def crowd(run_dirs: Iterable[Path]) -> str:
    """Return what to say of the largest job that uses its image in place; empty where it is no crowd."""
    in_place = [run_dir for run_dir in run_dirs if uses_image_in_place(run_dir)]
    sizes = {run_dir: RunFolder(run_dir).spec.nodes for run_dir in in_place}
    largest = max(sizes, key=lambda run_dir: sizes[run_dir], default=None)
    if largest is None or (calls := sizes[largest] * CALLS_PER_NODE) <= MOST_CALLS:
        return ""
    return (
        f"{'/'.join(largest.parts[-2:])}: {sizes[largest]} nodes will load the image from the shared file "
        f"system, by some {calls / 1e6:.1f} million calls at once; `images.stage: node` or `memory` "
        "in the site's site.yaml makes that a few hundred for each node (docs/images.md)"
    )


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
                store.uses.note(digest, str(run_dir))


def end_uses(runs: Iterable[RunFolder]) -> None:
    """Take it back of runs whose jobs have ended."""
    for run_dir, store, digest in _images(runs):
        store.uses.end(digest, str(run_dir))


def _images(runs: Iterable[RunFolder]) -> Iterator[tuple[Path, Store, str]]:
    """Yield the runs that have an image, with its store and digest."""
    for run in runs:
        with suppress(RunFolderError, ArgosyError):
            if image := run.spec.image:
                yield run.path, Store.of_project(run.path.parents[3]), image.digest

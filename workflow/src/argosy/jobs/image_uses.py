"""The images of runs: notes in the store that they are in use, and jobs that are slow to load theirs."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from argosy.run_folder.folder import RunFolder
from argosy.schedulers.missing_images import WantedImage, wanted_image

CALLS_PER_NODE = 16_000
"""Calls on files, from a container's start to PyTorch and Horovod loaded, where the image is used in place;
`make bench-file-calls` counts them."""

MOST_CALLS = 1_000_000
"""Of a job, without a word: metadata servers answer some tens of thousands a second, for all users."""


def crowd(run_dirs: Iterable[Path]) -> str:
    """Return what to say of the largest job that uses its image in place; empty where it is no crowd."""
    images = {run_dir: wanted_image(run_dir) for run_dir in run_dirs}
    in_place = [run_dir for run_dir, image in images.items() if image and not image.staged]
    sizes = {run_dir: RunFolder(run_dir).spec.nodes for run_dir in in_place}
    largest = max(sizes, key=lambda run_dir: sizes[run_dir], default=None)
    if largest is None or (calls := sizes[largest] * CALLS_PER_NODE) <= MOST_CALLS:
        return ""
    return (
        f"{'/'.join(largest.parts[-2:])}: {sizes[largest]} nodes will load the image from the "
        f"shared file system, with about {calls / 1e6:.1f} million calls at once; `images.stage: "
        "node` or `memory` in the site's site.yaml makes that a few hundred for each node "
        "(docs/images.md)"
    )


def note_uses(run_dirs: Iterable[Path]) -> dict[Path, WantedImage]:
    """Note the images of runs that are about to be submitted, and return them; nothing is pruned meanwhile.

    Raises:
        ArgosyError: when somebody has pruned or built for hours.
    """
    uses = {run_dir: image for run_dir in run_dirs if (image := wanted_image(run_dir))}
    for store in {image.store for image in uses.values() if image.store.is_writable}:
        # Whoever prunes at this moment has looked already: the submission finds what is left.
        with store.locked("prune"):
            for run_dir, image in uses.items():
                if image.store == store:
                    store.uses.note(image.digest, str(run_dir))
    return uses


def end_uses(run_dirs: Iterable[Path], noted: Mapping[Path, WantedImage]) -> None:
    """Take back the notes of runs whose jobs have ended: those of `noted`, or of an earlier driver."""
    for run_dir in run_dirs:
        with suppress(OSError):
            if image := noted.get(run_dir) or wanted_image(run_dir):
                image.store.uses.end(image.digest, str(run_dir))

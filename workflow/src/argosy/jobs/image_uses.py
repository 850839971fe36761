"""Marks images of runs as in use, and warns of jobs whose images load slowly."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from argosy.run_folder.folder import RunFolder
from argosy.schedulers.missing_images import WantedImage, wanted_image

CALLS_PER_NODE = 16_000
"""File system calls per node from a container's start until PyTorch and Horovod are loaded, if the image is
not staged; `make bench-file-calls` counts them."""

MOST_CALLS = 1_000_000
"""Calls of a job above which `crowd` warns: metadata servers answer some 10,000 calls per second."""


def crowd(run_dirs: Iterable[Path]) -> str:
    """Return a warning about the largest job whose image is not staged; empty for small jobs."""
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
    """Mark the images of runs before their submission, and return them; no prune runs meanwhile.

    Raises:
        ArgosyError: if a prune or a build has held the store's lock for hours.
    """
    uses = {run_dir: image for run_dir in run_dirs if (image := wanted_image(run_dir))}
    for store in {image.store for image in uses.values() if image.store.is_writable}:
        # The lock waits for a running prune; the submission then checks that the image still exists.
        with store.locked("prune"):
            for run_dir, image in uses.items():
                if image.store == store:
                    store.uses.note(image.digest, str(run_dir))
    return uses


def end_uses(run_dirs: Iterable[Path], noted: Mapping[Path, WantedImage]) -> None:
    """Remove the marks of runs whose jobs have ended, set by `note_uses` or by an earlier driver."""
    for run_dir in run_dirs:
        with suppress(OSError):
            if image := noted.get(run_dir) or wanted_image(run_dir):
                image.store.uses.end(image.digest, str(run_dir))

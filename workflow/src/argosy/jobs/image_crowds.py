"""Jobs so large that loading their image would keep a shared file system busy for long."""

from collections.abc import Iterable
from pathlib import Path

from argosy.run_folder.folder import RunFolder
from argosy.schedulers.missing_images import uses_image_in_place

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

"""Jobs so large that loading their image would keep a shared file system busy for long."""

from collections.abc import Iterable
from pathlib import Path

from argosy.images.engines.models import UNISOLATED_ENGINES
from argosy.run_folder.folder import RunFolder
from argosy.schedulers.missing_images import uses_image_in_place

CALLS_PER_NODE = 16_000
"""Calls on files, from a container's start to PyTorch and Horovod loaded, where the image is used in place;
`make bench-file-calls` counts them."""

CALLS_PER_NODE_BY_PROOT = 150_000
"""The same below proot, which gives its user all rights to each folder on a path and takes them back: such
calls change the file system, and no node's cache answers them. docs/images.md has the count."""

MOST_CALLS = 1_000_000
"""Of a job, without a word: metadata servers answer some tens of thousands a second, for all users."""


def crowd(run_dirs: Iterable[Path], engine: str | None = None) -> str:
    """Return what to say of the largest job that uses its image in place; empty where it is no crowd.

    Args:
        engine: of containers, where the site names one.
    """
    by_proot = engine in UNISOLATED_ENGINES
    each = CALLS_PER_NODE_BY_PROOT if by_proot else CALLS_PER_NODE
    in_place = [run_dir for run_dir in run_dirs if uses_image_in_place(run_dir)]
    sizes = {run_dir: RunFolder(run_dir).spec.nodes for run_dir in in_place}
    largest = max(sizes, key=lambda run_dir: sizes[run_dir], default=None)
    if largest is None or (calls := sizes[largest] * each) <= MOST_CALLS:
        return ""
    by = f" by {engine}" if by_proot else ""
    return (
        f"{'/'.join(largest.parts[-2:])}: {sizes[largest]} nodes will load the image from the shared file "
        f"system{by}, by some {calls / 1e6:.1f} million calls at once; `images.stage: node` or `memory` "
        "in the site's site.yaml makes that a few hundred for each node (docs/images.md)"
    )

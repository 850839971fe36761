"""Which runs share a job: with `resources.same_allocation`, those of one repeat, on one set of nodes.

A pair of sizes that ran on the same nodes, one just after the other, has the nodes and the hour in common.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from argosy.errors import ArgosyError
from argosy.reading import site_of
from argosy.run_folder.folder import RunFolder, allocation_folder
from argosy.run_folder.models import RunFolderError
from argosy.site.models import Site
from argosy.site.placement import Request
from argosy.study.runs import Run

BETWEEN_RUNS_S = 60
"""Added to each run's time: its script begins and ends outside of the job step that has that time."""


def allocation_of(run: Run, site: Site) -> str | None:
    """Return the folder of the job that the run shares, below that of the site; None for a job of its own.

    An experiment and the variants that a study makes of it are compared, so they share.

    Raises:
        ArgosyError: when the site does not have it.
    """
    if not run.resources.same_allocation or site.scheduler == "local":
        return None
    experiment = run.variant.of if run.variant else run.experiment
    if not site.same_allocation:
        raise ArgosyError(
            "same_allocation: false: a job of this site holds one run; leave out "
            f"experiments.{experiment}.resources.same_allocation"
        )
    return f"{experiment}/allocation-repeat{run.repeat}"


def together(asked: Iterable[tuple[str | None, Request]]) -> dict[str, Request]:
    """Return what each shared job asks for: the nodes of its largest run, the time of all.

    Args:
        asked: for each run, the folder of the job that it shares, if it does, and what it asks for.
    """
    shared: defaultdict[str, list[Request]] = defaultdict(list)
    for allocation, request in asked:
        if allocation:
            shared[allocation].append(request)
    return {
        allocation: replace(
            max(requests, key=lambda each: (each.nodes, each.ranks_per_node)),
            time=sum(each.time + BETWEEN_RUNS_S for each in requests),
        )
        for allocation, requests in shared.items()
    }


def split_shared(run_dirs: Iterable[Path]) -> tuple[list[Path], dict[Path, list[Path]]]:
    """Split planned runs into those with a job of their own, and those that share, by the job's folder."""
    alone, shared = [], defaultdict(list)
    for run_dir in run_dirs:
        if folder := _folder_of(run_dir):
            shared[folder].append(run_dir)
        else:
            alone.append(run_dir)
    return alone, shared


def repeat_of(run_dir: Path) -> int:
    """Return the repeat that a planned run is of; 0 where its run.json cannot be read."""
    try:
        return RunFolder(run_dir).spec.repeat
    except RunFolderError:
        return 0


def _folder_of(run_dir: Path) -> Path | None:
    """Return the folder of the job that a planned run shares; None for a job of its own."""
    try:
        return allocation_folder(site_of(run_dir), RunFolder(run_dir).spec.allocation)
    except RunFolderError:
        return None

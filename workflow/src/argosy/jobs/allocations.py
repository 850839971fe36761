"""Which runs share a job: with `resources.same_allocation`, those of one repeat, on one set of nodes.

A pair of sizes that ran on the same nodes, one just after the other, has the nodes and the hour in common.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from argosy.errors import ArgosyError
from argosy.schedulers import find_batch_system
from argosy.schedulers.base import BETWEEN_RUNS_S
from argosy.site.models import Site
from argosy.site.placement import Request
from argosy.study.runs import Run


def allocation_of(run: Run, site: Site) -> str | None:
    """Return the folder of the job that the run shares, below that of the site; None for a job of its own.

    An experiment, the variants that a study makes of it, and the same without containers are compared, so
    they share.

    Raises:
        ArgosyError: when the site does not have it.
    """
    if not run.resources.same_allocation or not find_batch_system(site.scheduler).SHARES_JOBS:
        return None
    experiment = run.variant.of if run.variant else run.native_of or run.experiment
    if not site.same_allocation:
        raise ArgosyError(
            "same_allocation: false: a job of this site holds one run",
            f"leave out experiments.{experiment}.resources.same_allocation",
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

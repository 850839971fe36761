"""Processes of completed runs that the kernel killed for want of memory, in words."""

from argosy.errors import some
from argosy.report.summary.models import RunSummary


def remark(run: RunSummary) -> str | None:
    """Return the sentence on a run's killed processes; None without any."""
    if not run.killed_for_memory:
        return None
    nodes = some([str(node) for node in run.killed_for_memory])
    return (
        f"A process of this job was killed for want of memory on node {nodes}, though all ranks ended "
        "well. See what it was to do, or raise resources.memory_per_rank."
    )

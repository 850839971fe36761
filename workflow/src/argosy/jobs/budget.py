"""Node-hours that the runs without a result may take, and the study's limit of them."""

from collections.abc import Sequence

from argosy.jobs.description import Plan
from argosy.jobs.planning import request_of, together
from argosy_common.errors import ArgosyError


def node_hours(plans: Sequence[Plan]) -> float:
    """Return the nodes of all jobs times their time limits; runs that share a job have it together."""
    asked = [(plan.allocation, request_of(plan.run)) for plan in plans]
    own = [request for allocation, request in asked if not allocation]
    return sum(job.nodes * job.time for job in (*own, *together(asked).values())) / 3600


def check_budget(budget: float, plans: Sequence[Plan]) -> str:
    """Return the line that tells how much of the budget runs may take.

    Args:
        budget: in node-hours.
        plans: of the runs that have no result.

    Raises:
        ArgosyError: they may take more.
    """
    hours = node_hours(plans)
    runs = f"{len(plans):,} {'run' if len(plans) == 1 else 'runs'}"
    told = f"{runs} may take {hours:,.2f} node-hours (nodes × time limit)"
    if hours > budget:
        raise ArgosyError(
            f"budget: {told}, more than the {budget:,.10g} of the budget",
            "lower resources.time, scale.repeats or the sizes, select experiments by only, or raise budget",
        )
    return f"Budget: {told}, of {budget:,.10g}."

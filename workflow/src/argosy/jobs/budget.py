"""Compares the node-hours of runs without a result with the study's budget."""

from collections.abc import Sequence

from argosy.jobs.description import Plan
from argosy.jobs.planning import request_of, together
from argosy_common.errors import ArgosyError


def node_hours(plans: Sequence[Plan]) -> float:
    """Sum nodes times time limit over all jobs; runs that share a job count as one job."""
    asked = [(plan.allocation, request_of(plan.run)) for plan in plans]
    own = [request for allocation, request in asked if not allocation]
    return sum(job.nodes * job.time for job in (*own, *together(asked).values())) / 3600


def check_budget(budget: float, plans: Sequence[Plan]) -> str:
    """Return a line that compares the runs' node-hours with the budget.

    Args:
        budget: limit in node-hours.
        plans: plans of the runs without a result.

    Raises:
        ArgosyError: if they may exceed the budget.
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

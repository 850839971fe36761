"""What Horovod's timelines say, in plain words."""

from argosy.analysis.timelines import PARTS, PointTimeline
from argosy.report.models import ExperimentSummary
from argosy.report.numbers import count, number, percent, percent_interval


def part_names(experiment: ExperimentSummary) -> list[str]:
    """The parts that any size of the experiment has, in the order of `PARTS`."""
    found = {name for point in experiment.timelines for name in point.shares}
    return [name for name in PARTS if name in found]


def size(experiment: ExperimentSummary, point: PointTimeline) -> str:
    """A size by name: `2 nodes`, with its ranks where nodes alone would not tell."""
    same = len({one.ranks_per_node for one in experiment.timelines}) == 1
    nodes = count(point.nodes, "node")
    return nodes if same else f"{nodes} with {count(point.ranks, 'rank')}"


def finding(experiment: ExperimentSummary) -> str | None:
    """What Horovod did at the largest size with a timeline; None where none is known."""
    known = [point for point in experiment.timelines if point.shares]
    if not known:
        return None
    largest = known[-1]
    name = max(largest.shares, key=lambda part: largest.shares[part].mean)
    share = largest.shares[name]
    spread = f", {percent_interval(share)}" if share.low is not None else ""
    means = "; negotiation is waiting for the slowest rank" if name == "negotiation" else ""
    return (
        f"With {size(experiment, largest)} Horovod's longest part is {name}, "
        f"{number(1000 * largest.seconds_per_step[name].mean)} ms per step "
        f"({percent(share.mean)} of the step's time{spread}){means}. How much of that the backward "
        "pass hides is not known. Writing a timeline takes time: the throughput is not to be compared."
    )


def refusals(experiment: ExperimentSummary) -> list[str]:
    """Why sizes have no numbers, a sentence each."""
    return [
        f"Nothing from Horovod's timelines with {size(experiment, point)}: {point.refused}."
        for point in experiment.timelines
        if point.refused
    ]

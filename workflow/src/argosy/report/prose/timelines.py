"""What Horovod's timelines say, in plain words."""

from argosy.report.numbers import number, percent, percent_interval
from argosy.report.prose.size_names import name_among
from argosy.report.summary.models import ExperimentSummary
from argosy.report.topics.timelines import PARTS


def part_names(experiment: ExperimentSummary) -> list[str]:
    """Return the parts that any size of the experiment has, in the order of `PARTS`."""
    found = {name for point in experiment.timelines for name in point.shares}
    return [name for name in PARTS if name in found]


def finding(experiment: ExperimentSummary) -> str | None:
    """Return what Horovod did at the largest size with a timeline; None where none is known."""
    known = [point for point in experiment.timelines if point.shares]
    if not known:
        return None
    largest = known[-1]
    name = max(largest.shares, key=lambda part: largest.shares[part].mean)
    share = largest.shares[name]
    spread = f", {percent_interval(share)}" if share.low is not None else ""
    means = "; negotiation is waiting for the slowest rank" if name == "negotiation" else ""
    return (
        f"With {name_among(experiment.timelines, largest)} Horovod's longest part is {name}, "
        f"{number(1000 * largest.seconds_per_step[name].mean)} ms per step "
        f"({percent(share.mean)} of the step's time{spread}){means}. How much of that the backward "
        "pass hides is not known. Writing a timeline takes time: the throughput is not to be compared."
    )


def refusals(experiment: ExperimentSummary) -> list[str]:
    """Return why sizes have no numbers, a sentence each."""
    return [
        f"Nothing from Horovod's timelines with {name_among(experiment.timelines, point)}: {point.refused}."
        for point in experiment.timelines
        if point.refused
    ]

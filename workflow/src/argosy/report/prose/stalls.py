"""The stalls of an experiment in plain words."""

from argosy.report.numbers import percent, percent_interval
from argosy.report.prose.findings import LEAST_LOSS
from argosy.report.prose.size_names import listed, name_among
from argosy.report.statistics.estimates import Estimate
from argosy.report.summary.models import ExperimentSummary
from argosy.report.topics.stalls import PARTS

_WAITS = {
    "interconnect": "for the other ranks of its node",
    "network": "for other nodes",
    "data": "for data",
    "preparation": "for data to be prepared",
    "fetch": "for data to be read",
}


def part_names(experiment: ExperimentSummary) -> list[str]:
    """Return the parts of a step that any size of the experiment has, in the order of `PARTS`."""
    found = {name for stalls in experiment.stalls for name in stalls.shares}
    return [name for name in PARTS if name in found]


def finding(experiment: ExperimentSummary) -> str | None:
    """Return what a step waits for at the largest size; None where the stalls were not studied."""
    known = [stalls for stalls in experiment.stalls if stalls.shares]
    if not known:
        return None
    largest = known[-1]
    waits = [
        f"{percent(share.mean)} ({percent_interval(share)}) {_WAITS[name]}"
        for name, share in sorted(largest.shares.items(), key=lambda one: -one[1].mean)
        if name in _WAITS and _is_sure(share)
    ]
    at = name_among(experiment.stalls, largest)
    if not waits:
        return f"With {at} no stall can be told from chance."
    return f"With {at} a step waits {listed(waits)}."


def refusals(experiment: ExperimentSummary) -> list[str]:
    """Return why sizes have no stalls, a sentence each."""
    return [
        f"No stalls with {name_among(experiment.stalls, stalls)}: {stalls.refused}."
        for stalls in experiment.stalls
        if stalls.refused
    ]


def _is_sure(share: Estimate) -> bool:
    return share.mean >= LEAST_LOSS and share.low is not None and share.low > 0

"""What is said of runs that become slower in their course."""

from statistics import median

from argosy.report.numbers import number
from argosy.report.prose.size_names import name_among
from argosy.report.summary.models import ExperimentSummary, PointSummary, RunSummary, Summary

ALIKE = 1.02
"""Sizes that become slower by ratios nearer to each other are compared as if none did."""


def remark(run: RunSummary) -> str:
    """Return what is said of a run that becomes slower."""
    of = "print" if run.throughput_source == "printed" else "step"
    return (
        f"From {of} {run.slower_from:,} on its {of}s take {number(run.slower)} times as long as before, to "
        "its end. Possible causes are lower clocks, a neighbour on the node, or more work. Its throughput "
        "is the mean of both."
    )


def sentences(summary: Summary, experiment: ExperimentSummary) -> list[str]:
    """Return the sentence that sizes of an experiment differ in how far their runs become slower."""
    measured = [
        run
        for run in summary.runs
        if run.counts_to == experiment.experiment and run.samples_per_s is not None
    ]
    slower = [
        (median(ratios), name_among(experiment.sizes, point))
        for point in experiment.points
        if (ratios := [run.slower for run in measured if _is_of(run, point)])
    ]
    if not slower or max(slower)[0] < ALIKE * min(slower)[0]:
        return []
    told = ", ".join(f"{number(ratio)} times with {name}" for ratio, name in slower)
    return [
        f"Steps become slower in the course of runs, in the median {told}. Speed-ups compare means over "
        "whole runs, so this difference is in them; the runs' remarks say from which step on."
    ]


def _is_of(run: RunSummary, point: PointSummary) -> bool:
    return (run.nodes, run.ranks_per_node) == (point.nodes, point.ranks_per_node)

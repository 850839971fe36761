"""Losses and other metrics that are NaN or infinite, in words."""

from argosy.analysis.not_finite import NotFinite
from argosy.report.numbers import duration
from argosy.report.summary.models import ExperimentSummary, RunSummary, Summary

_MOST_NAMED = 4


def sentences(summary: Summary, experiment: ExperimentSummary) -> list[str]:
    """Return a sentence for each run of an experiment in which something is not finite; of many, of few."""
    found = [
        (run, run.not_finite[0])
        for run in summary.runs
        if (run.counted_as or run.experiment) == experiment.experiment and run.not_finite
    ]
    said = [f"{run.run_id}: {remark(one)}" for run, one in found[:_MOST_NAMED]]
    if len(found) > _MOST_NAMED:
        said.append(
            f"The same is so in {len(found) - _MOST_NAMED} more runs; their remarks say where."
        )
    return said


def remarks(run: RunSummary) -> list[str]:
    """Return a sentence for each metric of a run that is not finite."""
    return [remark(one) for one in run.not_finite]


def remark(one: NotFinite) -> str:
    """Return the sentence on what is not finite, and from when."""
    what = f"a loss is not finite ({one.value})" if one.is_printed else f"{one.name} is {one.value}"
    since = [] if one.step is None else [f"from step {one.step} on"]
    since += [] if one.at_s is None else [f"{duration(max(0.0, one.at_s))} after the start"]
    others = f", and {one.ranks - 1} more of its ranks" if one.ranks > 1 else ""
    return f"{what[0].upper()}{what[1:]} on rank {one.rank}{others}, {', '.join(since)}.".replace(
        ", .", "."
    )

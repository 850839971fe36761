"""What is said of single runs among the findings of their experiment."""

from collections.abc import Callable

from argosy.report.summary.models import ExperimentSummary, RunSummary, Summary

_MOST_NAMED = 4


def sentences(
    summary: Summary, experiment: ExperimentSummary, remark: Callable[[RunSummary], str | None]
) -> list[str]:
    """Return a sentence for each run of an experiment of which there is a remark; of many, of few."""
    found = [
        f"{run.run_id}: {said}"
        for run in summary.runs
        if run.counts_to == experiment.experiment and (said := remark(run))
    ]
    if len(found) > _MOST_NAMED:
        more = len(found) - _MOST_NAMED
        found[_MOST_NAMED:] = [f"The same is so in {more} more runs; their remarks say where."]
    return found

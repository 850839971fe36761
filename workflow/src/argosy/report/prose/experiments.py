"""All that is said of an experiment, in the order of the report."""

from collections import defaultdict
from collections.abc import Iterator

from argosy.report.prose import (
    accuracy,
    container_cost,
    doubts,
    findings,
    history,
    long_steps,
    not_finite,
    of_runs,
    queue_waits,
    repeated_slowness,
    sizes,
    slowdowns,
    stalls,
    timelines,
)
from argosy.report.summary.models import ExperimentSummary, RunSummary, Summary

_ENDED_BADLY = ("failed", "interrupted", "cancelled", "unfinished")


def to_know(summary: Summary, experiment: ExperimentSummary) -> list[str]:
    """Return what to know before the numbers are used: failures first, then doubts on completed runs."""
    return [
        *_failures(summary, experiment),
        *findings.left_out(summary, experiment),
        *_not_steady(summary, experiment),
        *slowdowns.sentences(summary, experiment),
        *history.slower(experiment),
        *findings.cautions(experiment),
        *accuracy.findings(experiment),
        *repeated_slowness.rank_sentences(summary, experiment),
        *of_runs.sentences(summary, experiment, not_finite.first_remark),
        *of_runs.sentences(summary, experiment, doubts.remark),
        *of_runs.sentences(summary, experiment, long_steps.remark),
    ]


def sentences(experiment: ExperimentSummary) -> list[str]:
    """Return what was found: of its scaling, container and queue, and of what a step waits for."""
    apart = (stalls.finding(experiment), timelines.finding(experiment))
    return [
        *findings.findings(experiment),
        *container_cost.findings(experiment),
        *queue_waits.findings(experiment),
        *filter(None, apart),
    ]


def _failures(summary: Summary, experiment: ExperimentSummary) -> Iterator[str]:
    """Yield a sentence for each size with runs that ended without a result: how many, and why."""
    causes_of = {(one.experiment, one.run_id): one.cause for one in summary.failures}
    for one in experiment.sizes:
        causes = [
            causes_of.get((run.experiment, run.run_id), run.state).rstrip(".")
            for run in _runs_of(summary, experiment)
            if (run.nodes, run.ranks_per_node) == (one.nodes, one.ranks_per_node)
            and run.state in _ENDED_BADLY
        ]
        if said := sizes.not_completed(experiment, one, causes):
            yield said


def _not_steady(summary: Summary, experiment: ExperimentSummary) -> Iterator[str]:
    """Yield a sentence for each reason for which runs count that were not seen to be steady."""
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for run in _runs_of(summary, experiment):
        if run.is_steady is False and run.samples_per_s is not None and run.slower_from is None:
            by_reason[run.warm_up or "not steady"].append(run.run_id)
    for reason, runs in by_reason.items():
        yield f"Counted, though not shown to be steady: {findings.runs_named(runs)}: {reason}."


def _runs_of(summary: Summary, experiment: ExperimentSummary) -> list[RunSummary]:
    return [run for run in summary.runs if run.counts_to == experiment.experiment]

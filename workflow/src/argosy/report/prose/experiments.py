"""All that is said of an experiment, in the order of the report."""

from argosy.report.prose import (
    accuracy,
    container_cost,
    doubts,
    findings,
    long_steps,
    not_finite,
    of_runs,
    queue_waits,
    repeated_slowness,
    slowdowns,
    stalls,
    timelines,
)
from argosy.report.summary.models import ExperimentSummary, Summary


def warnings(summary: Summary, experiment: ExperimentSummary) -> list[str]:
    """Return what is wrong with completed runs.

    That is those in none of the numbers, what is not finite, what their verdicts call doubtful, single
    steps that took very long, runs that became slower, and ranks that were slow again and again.
    """
    return [
        *findings.left_out(summary, experiment),
        *of_runs.sentences(summary, experiment, not_finite.first_remark),
        *of_runs.sentences(summary, experiment, doubts.remark),
        *of_runs.sentences(summary, experiment, long_steps.remark),
        *slowdowns.sentences(summary, experiment),
        *repeated_slowness.rank_sentences(summary, experiment),
    ]


def sentences(experiment: ExperimentSummary) -> list[str]:
    """Return what was found: of its scaling, container and queue, and of what a step waits for."""
    apart = (stalls.finding(experiment), timelines.finding(experiment))
    return [
        *findings.findings(experiment),
        *accuracy.findings(experiment),
        *container_cost.findings(experiment),
        *queue_waits.findings(experiment),
        *filter(None, apart),
    ]

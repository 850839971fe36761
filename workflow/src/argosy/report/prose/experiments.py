"""All that is said of an experiment, in the order of the report."""

from argosy.report.prose import (
    container_cost,
    findings,
    not_finite,
    queue_waits,
    stalls,
    timelines,
)
from argosy.report.summary.models import ExperimentSummary, Summary


def warnings(summary: Summary, experiment: ExperimentSummary) -> list[str]:
    """Return what is wrong with completed runs: those in none of the numbers, and what is not finite."""
    return [
        *findings.left_out(summary, experiment),
        *not_finite.sentences(summary, experiment),
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

"""The topics of an experiment, and the order in which the report has them.

A topic measures something in the tables, says what is found of it, and may draw it. A module here is one
topic. What it adds to the report stands in the lists of this file.
"""

from collections.abc import Mapping
from typing import Any

from argosy.report import sizes
from argosy.report.drawing import Drawing
from argosy.report.runs.measurements import Point
from argosy.report.runs.study_tables import StudyTables
from argosy.report.summary.models import ExperimentSummary, Summary
from argosy.report.topics import (
    accuracy,
    allreduces,
    container_cost,
    costs,
    doubts,
    phases,
    queue,
    runs,
    scaling,
    scaling_chart,
    slowness,
    stalls,
    timelines,
    usage,
)
from argosy.report.topics.history import says as history
from argosy.report.topics.prediction import says as prediction


def of_points(tables: StudyTables) -> Mapping[str, Mapping[tuple[str, Point], Any]]:
    """Return what topics measure by experiment and point, by its field of `PointSummary`."""
    return {"queue": queue.queue_waits(tables), "metrics": accuracy.recorded_metrics(tables)}


def of_experiments(tables: StudyTables) -> Mapping[str, Mapping[str, Any]]:
    """Return what topics measure by experiment, by its field of `ExperimentSummary`."""
    return {
        "stalls": stalls.stalls(tables),
        "timelines": timelines.timelines(tables),
        "allreduces": allreduces.allreduces(tables),
    }


def to_know(summary: Summary, experiment: ExperimentSummary) -> list[str]:
    """Return what to know before the numbers are used: failures first, then doubts on completed runs."""
    return [
        *runs.failures(summary, experiment),
        *runs.left_out(summary, experiment),
        *runs.not_steady(summary, experiment),
        *slowness.sentences(summary, experiment),
        *history.slower(experiment),
        *slowness.slow_job_sentences(experiment),
        *sizes.batches(experiment),
        *costs.much_between_steps(experiment),
        *usage.unused_gpus(experiment),
        *accuracy.findings(experiment),
        *slowness.rank_sentences(summary, experiment),
        *doubts.sentences(summary, experiment),
    ]


def sentences(experiment: ExperimentSummary) -> list[str]:
    """Return what was found: of its scaling, container and queue, and of what a step waits for."""
    return [
        *scaling.findings(experiment),
        *container_cost.findings(experiment),
        *queue.findings(experiment),
        *stalls.findings(experiment),
        *timelines.findings(experiment),
    ]


def drawings(experiment: ExperimentSummary, currency: str | None = None) -> list[Drawing]:
    """Return what is drawn of an experiment; prices are in `currency`."""
    return [
        *scaling_chart.drawings(experiment),
        *phases.drawings(experiment),
        *stalls.drawings(experiment),
        *timelines.drawings(experiment),
        *prediction.drawings(experiment),
        *costs.drawings(experiment, currency),
        *history.drawings(experiment),
    ]


def first_pictures(experiment: ExperimentSummary) -> list[Drawing]:
    """Return the throughput, and where a step's time goes; without phases the efficiency."""
    found = {one.name: one for one in drawings(experiment)}
    names = ("throughput", "phases" if "phases" in found else "efficiency")
    return [found[name] for name in names if name in found]


def further_pictures(experiment: ExperimentSummary, currency: str | None) -> list[Drawing]:
    """Return all other drawings of an experiment; prices are in `currency`."""
    first = {one.name for one in first_pictures(experiment)}
    return [one for one in drawings(experiment, currency) if one.name not in first]

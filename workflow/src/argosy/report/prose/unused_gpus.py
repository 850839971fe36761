"""GPUs that runs asked for and did not use, in words."""

from argosy.report.numbers import count, percent
from argosy.report.summary.models import ExperimentSummary
from argosy.report.summary.usage import UsageSummary

IDLE = 0.01
"""Of the time; a program that computes on a GPU keeps it busy for more than that, start-up included."""


def unused_gpus(experiment: ExperimentSummary) -> list[str]:
    """Return the sentence that the processors may have been measured, where GPUs were asked for."""
    asked = experiment.setup.resources.get("gpus_per_rank", 0)
    used = [point.usage for point in experiment.points if point.usage]
    if not asked or not used:
        return []
    begin = f"Its runs asked for {count(asked, 'GPU')} a rank"
    if not any(_has_gpus(usage) for usage in used):
        return [
            f"{begin}, and telemetry saw none on their nodes, as is said under what could not be read: "
            "they may have computed on processors."
        ]
    busy = [usage.gpu_busy.mean for usage in used if usage.gpu_busy]
    if busy and max(busy) < IDLE:
        return [
            f"{begin}, which were busy for {percent(max(busy), 1)} of the time: they may have computed on "
            "processors."
        ]
    return []


def _has_gpus(usage: UsageSummary) -> bool:
    return usage.gpu_busy is not None or usage.gpu_memory_bytes_max is not None

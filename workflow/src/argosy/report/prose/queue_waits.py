"""How long jobs waited in the queue, in plain words."""

from argosy.report.numbers import count, duration
from argosy.report.summary.models import ExperimentSummary, PointSummary

_WORTH_A_WORD_S = 60.0
"""A minute in the queue is nobody's trouble."""


def findings(experiment: ExperimentSummary) -> list[str]:
    """Return a sentence on the size that waited longest, where that was worth a word."""
    waited = [point for point in experiment.points if point.queue]
    if not waited:
        return []
    longest = max(waited, key=_wait)
    if _wait(longest) < _WORTH_A_WORD_S:
        return []
    jobs = f"Jobs of {count(longest.nodes, 'node')} {in_words(longest)}"
    return [f"{jobs}; queue times vary from day to day."]


def in_words(point: PointSummary) -> str:
    """Return how long the jobs of a size waited; it has to be known."""
    queue = point.queue
    assert queue
    several = (
        f" in the median ({duration(queue.shortest_s)} to {duration(queue.longest_s)}, n = {queue.jobs})"
        if queue.jobs > 1
        else ""
    )
    return f"waited {duration(queue.waited_s)} in the queue {', '.join(queue.queues)}{several}"


def _wait(point: PointSummary) -> float:
    return point.queue.waited_s if point.queue else 0.0

"""Queue waits, and times from submission to result."""

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from argosy.report.numbers import count, duration
from argosy.report.runs.measurements import Point
from argosy.report.runs.study_tables import StudyTables
from argosy.report.summary.models import ExperimentSummary, PointSummary, QueueWaits
from argosy.report.table import UNKNOWN, Cell, Column, column, figure

_QUERY = """
SELECT experiment, nodes, ranks_per_node, ranks, list(DISTINCT queue ORDER BY queue) AS queues,
    list(waited_s ORDER BY run_id) AS waited, list(waited_s + seconds ORDER BY run_id) AS whole
FROM runs WHERE state = 'completed' AND waited_s IS NOT NULL AND seconds IS NOT NULL
GROUP BY ALL ORDER BY experiment, ranks, nodes
"""


def queue_waits(tables: StudyTables) -> Mapping[tuple[str, Point], QueueWaits]:
    """Return the waits by experiment and point."""
    return {
        (row["experiment"], Point.of(row)): QueueWaits(
            jobs=len(row["waited"]),
            queues=tuple(row["queues"]),
            waited_s=median(row["waited"]),
            shortest_s=min(row["waited"]),
            longest_s=max(row["waited"]),
            to_result_s=median(row["whole"]),
        )
        for row in tables.fetch(_QUERY)
    }


_WORTH_A_WORD_S = 60.0
"""Shortest wait that is reported, in s."""


def findings(experiment: ExperimentSummary) -> list[str]:
    """Return a sentence on the longest wait, if it is at least a minute."""
    waited = [point for point in experiment.points if point.queue]
    if not waited:
        return []
    longest = max(waited, key=_wait)
    if _wait(longest) < _WORTH_A_WORD_S:
        return []
    jobs = f"Jobs of {count(longest.nodes, 'node')} {in_words(longest)}"
    return [f"{jobs}; queue times vary from day to day."]


def in_words(point: PointSummary) -> str:
    """Describe the waits of a size, which must be known."""
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


def columns(points: Sequence[PointSummary]) -> list[Column]:
    """Return the column of waits, if any are known."""
    return _times(points, "Queue wait", lambda waits: waits.waited_s)


def columns_to_result(points: Sequence[PointSummary]) -> list[Column]:
    """Return the column of times from submission to result, if any are known."""
    return _times(points, "Time to result", lambda waits: waits.to_result_s)


def _times(
    points: Sequence[PointSummary], heading: str, of: Callable[[QueueWaits], float]
) -> list[Column]:
    def cell(point: PointSummary) -> Cell:
        return figure(of(point.queue), duration(of(point.queue))) if point.queue else UNKNOWN

    return [column(points, heading, cell)] if any(point.queue for point in points) else []

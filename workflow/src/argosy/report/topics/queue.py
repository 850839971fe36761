"""How long the jobs of a size waited in the queue, and until their result was there."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from argosy.report.runs.measurements import Point
from argosy.report.runs.study_tables import StudyTables

_QUERY = """
SELECT experiment, nodes, ranks_per_node, ranks, list(DISTINCT queue ORDER BY queue) AS queues,
    list(waited_s ORDER BY run_id) AS waited, list(waited_s + seconds ORDER BY run_id) AS whole
FROM runs WHERE state = 'completed' AND waited_s IS NOT NULL AND seconds IS NOT NULL
GROUP BY ALL ORDER BY experiment, ranks, nodes
"""


@dataclass(frozen=True)
class QueueWaits:
    """Of completed runs whose jobs had a queue; medians, since single waits may be a hundred times longer.

    A site's load decides them, so they are of these hours and have no interval for others.
    """

    jobs: int
    queues: tuple[str, ...]
    waited_s: float
    shortest_s: float
    longest_s: float
    to_result_s: float
    """From the submission to the end of the run."""


def queue_waits(tables: StudyTables) -> Mapping[tuple[str, Point], QueueWaits]:
    """Return the waits by experiment and point."""
    return {
        (row["experiment"], Point(row["ranks"], row["nodes"], row["ranks_per_node"])): QueueWaits(
            jobs=len(row["waited"]),
            queues=tuple(row["queues"]),
            waited_s=median(row["waited"]),
            shortest_s=min(row["waited"]),
            longest_s=max(row["waited"]),
            to_result_s=median(row["whole"]),
        )
        for row in tables.fetch(_QUERY)
    }

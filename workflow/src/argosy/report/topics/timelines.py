"""What Horovod did in a step, from its timelines: waiting for ranks, queueing, copying, reducing."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from argosy.report.runs.measurements import Point
from argosy.report.runs.study_tables import StudyTables
from argosy.report.statistics.estimates import Estimate, total_estimate

PARTS = ("negotiation", "queue", "copies", "operation", "other")
"""Of the exchange of gradients, in this order."""

_EXCHANGES = ("ALLREDUCE", "ADASUM", "REDUCESCATTER")
"""Operations of steps; broadcasts and gathers are of the begin and the end of a training."""

_WAITS = ("QUEUE", "WAIT_FOR_DATA", "WAIT_FOR_OTHER_TENSOR_DATA")

_BEGINNINGS = {
    "NEGOTIATE_": "negotiation",
    "MEMCPY_": "copies",
    "COPY_": "copies",
    "GLOO_": "operation",
    "NCCL_": "operation",
    "MPI_": "operation",
    "CCL_": "operation",
}

_ASKED = "SELECT 1 FROM runs WHERE timeline AND state = 'completed' LIMIT 1"

# A timeline is that of the run's last job; what was done before it began has negative times.
_QUERY = """
WITH timed AS (
    SELECT experiment, run_id, nodes, ranks_per_node, ranks, repeat
    FROM runs WHERE timeline AND state = 'completed'
), of_steps AS (
    SELECT experiment, run_id, count(*) AS steps, sum(seconds) AS seconds
    FROM steps SEMI JOIN timed USING (experiment, run_id)
    WHERE rank = 0 AND coalesce(start_s, 0) >= 0 GROUP BY ALL
), of_activity AS (
    SELECT experiment, run_id,
        list({'activity': activity, 'span_s': span_s} ORDER BY activity) AS activities
    FROM timeline WHERE list_contains($exchanges, operation) AND activity <> operation GROUP BY ALL
)
SELECT timed.*, steps, seconds, activities
FROM timed LEFT JOIN of_steps USING (experiment, run_id)
LEFT JOIN of_activity USING (experiment, run_id)
ORDER BY experiment, ranks, nodes, repeat
"""


@dataclass(frozen=True)
class PointTimeline:
    """Means over the runs of a size, by part: seconds of a step, and shares of rank 0's steps.

    Parts overlap each other, as one tensor is negotiated while another is reduced. `refused` says why
    there are none, as the end of a sentence.
    """

    nodes: int
    ranks_per_node: int
    ranks: int
    step_s: Estimate | None
    seconds_per_step: dict[str, Estimate]
    shares: dict[str, Estimate]
    refused: str | None = None


@dataclass(frozen=True)
class _Run:
    steps: int | None
    seconds: float
    parts_s: Mapping[str, float]


def part_of(activity: str) -> str:
    """Return the part that an activity of Horovod's counts to, by its name."""
    if activity in _WAITS:
        return "queue"
    found = (part for begin, part in _BEGINNINGS.items() if activity.startswith(begin))
    return next(found, "other")


def timelines(tables: StudyTables) -> Mapping[str, list[PointTimeline]]:
    """Return the timelines of each size of which runs with some are completed, by experiment."""
    if not tables.fetch(_ASKED):
        return {}
    found: defaultdict[str, defaultdict[Point, list[_Run]]] = defaultdict(lambda: defaultdict(list))
    for row in tables.fetch(_QUERY, {"exchanges": [*_EXCHANGES]}):
        parts_s: defaultdict[str, float] = defaultdict(float)
        for activity in row["activities"] or ():
            parts_s[part_of(activity["activity"])] += activity["span_s"]
        point = Point(row["ranks"], row["nodes"], row["ranks_per_node"])
        found[row["experiment"]][point].append(_Run(row["steps"], row["seconds"] or 0, parts_s))
    return {
        name: [_of_point(point, runs) for point, runs in sorted(sizes.items())]
        for name, sizes in found.items()
    }


def _of_point(point: Point, runs: Sequence[_Run]) -> PointTimeline:
    known = [run for run in runs if run.steps and run.seconds > 0 and run.parts_s]
    size = (point.nodes, point.ranks_per_node, point.ranks)
    if not known:
        reason = (
            "their programs recorded no steps"
            if any(run.parts_s for run in runs)
            else "they hold no exchange of gradients"
        )
        return PointTimeline(*size, step_s=None, seconds_per_step={}, shares={}, refused=reason)
    names = [name for name in PARTS if any(name in run.parts_s for run in known)]
    return PointTimeline(
        *size,
        step_s=total_estimate([run.seconds / (run.steps or 1) for run in known]),
        seconds_per_step={
            name: total_estimate([run.parts_s.get(name, 0) / (run.steps or 1) for run in known])
            for name in names
        },
        shares={
            name: total_estimate([run.parts_s.get(name, 0) / run.seconds for run in known])
            for name in names
        },
    )

"""Parts of Horovod's work, from its timelines: waiting for ranks, queueing, copying, reducing."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from argosy.report.colours import BLUE, GREY, ORANGE, SKY, VERMILION
from argosy.report.drawing import Drawing, parts_drawing
from argosy.report.numbers import number, percent, percent_interval
from argosy.report.runs.measurements import Point
from argosy.report.runs.study_tables import StudyTables
from argosy.report.sizes import name_among
from argosy.report.statistics.estimates import total_estimate
from argosy.report.summary.models import ExperimentSummary, Summary
from argosy.report.summary.parts import PointTimeline
from argosy.report.table import UNKNOWN, Cell, Table, column, figure, in_order, size_columns
from argosy.report.topics.stalls import step_cell

PARTS = ("negotiation", "queue", "copies", "operation", "other")
"""Parts of the gradient exchange, in this order."""
_EXCHANGES = ("ALLREDUCE", "ADASUM", "REDUCESCATTER")
"""Operations of steps; broadcasts and gathers occur at the start and end of a training."""
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
# A timeline covers the run's last job.
_QUERY = """
WITH timed AS (
    SELECT experiment, run_id, nodes, ranks_per_node, ranks, repeat, continued_at
    FROM runs WHERE timeline AND state = 'completed'
), of_steps AS (
    SELECT experiment, run_id, count(*) AS steps, sum(seconds) AS seconds
    FROM steps JOIN timed USING (experiment, run_id)
    WHERE rank = 0 AND step >= coalesce(list_max(continued_at), 0) GROUP BY experiment, run_id
), of_activity AS (
    SELECT experiment, run_id,
        list({'activity': activity, 'span_s': span_s} ORDER BY activity) AS activities
    FROM timeline WHERE list_contains($exchanges, operation) AND activity <> operation GROUP BY ALL
)
SELECT timed.* EXCLUDE continued_at, steps, seconds, activities
FROM timed LEFT JOIN of_steps USING (experiment, run_id)
LEFT JOIN of_activity USING (experiment, run_id)
ORDER BY experiment, ranks, nodes, repeat
"""


@dataclass(frozen=True)
class _Run:
    steps: int | None
    seconds: float
    parts_s: Mapping[str, float]


def part_of(activity: str) -> str:
    """Return the part of an activity, by its name."""
    if activity in _WAITS:
        return "queue"
    found = (part for begin, part in _BEGINNINGS.items() if activity.startswith(begin))
    return next(found, "other")


def timelines(tables: StudyTables) -> Mapping[str, list[PointTimeline]]:
    """Return the timelines by experiment, for each size with completed runs that have one."""
    if not tables.fetch(_ASKED):
        return {}
    found: defaultdict[str, defaultdict[Point, list[_Run]]] = defaultdict(lambda: defaultdict(list))
    for row in tables.fetch(_QUERY, {"exchanges": [*_EXCHANGES]}):
        parts_s: defaultdict[str, float] = defaultdict(float)
        for activity in row["activities"] or ():
            parts_s[part_of(activity["activity"])] += activity["span_s"]
        point = Point.of(row)
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
            else "they contain no exchange of gradients"
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


def part_names(experiment: ExperimentSummary) -> list[str]:
    """Return the parts that any size of the experiment has, in the order of `PARTS`."""
    return in_order(PARTS, (point.shares for point in experiment.timelines))


def findings(experiment: ExperimentSummary) -> list[str]:
    """Return a sentence on the longest part at the largest size with a timeline, if any."""
    known = [point for point in experiment.timelines if point.shares]
    if not known:
        return []
    largest = known[-1]
    name = max(largest.shares, key=lambda part: largest.shares[part].mean)
    share = largest.shares[name]
    spread = f", {percent_interval(share)}" if share.low is not None else ""
    means = "; negotiation is waiting for the slowest rank" if name == "negotiation" else ""
    return [
        f"With {name_among(experiment.timelines, largest)} Horovod's longest part is {name}, "
        f"{number(1000 * largest.seconds_per_step[name].mean)} ms per step ({percent(share.mean)} "
        f"of the step's time{spread}){means}. The share that the backward pass hides is unknown. "
        "Writing a timeline takes time: do not compare this throughput."
    ]


def tables(experiment: ExperimentSummary) -> Iterator[Table | str]:
    """Yield the table of milliseconds and shares by part, and a sentence for each size without them."""
    known = [point for point in experiment.timelines if point.shares]
    if known:
        yield Table(
            [
                *size_columns(known),
                column(known, "Runs", lambda one: str(one.step_s.n if one.step_s else 0)),
                column(known, "Step", step_cell),
                *(column(known, name, partial(_part, name)) for name in part_names(experiment)),
            ],
            "Milliseconds per step in which any gradient was in a part, and shares of rank 0's steps, "
            "warm-up included; parts overlap.",
            f"Timelines of {experiment.experiment}",
            "timeline",
            folded="Horovod timelines",
        )
    for point in experiment.timelines:
        if point.refused:
            at = name_among(experiment.timelines, point)
            yield f"No data from Horovod's timelines with {at}: {point.refused}."


def _part(name: str, point: PointTimeline) -> Cell:
    share = point.shares.get(name)
    if share is None:
        return UNKNOWN
    seconds = point.seconds_per_step[name].mean
    spread = "" if share.low is None else f" ({percent_interval(share, 1)})"
    shown = figure(seconds, number(1000 * seconds), " ms")
    return replace(shown, below=f"{percent(share.mean, 1)}{spread}")


_COLOURS = dict(zip(PARTS, (VERMILION, ORANGE, SKY, BLUE, GREY), strict=True))
_CAPTION = "What Horovod did with gradients, by its timelines; the parts overlap each other."


def drawings(experiment: ExperimentSummary) -> Iterator[Drawing]:
    """Yield the bar chart of timelines, if any are known."""
    names = part_names(experiment)
    if not names:
        return
    rows = [
        {
            "size": name_among(experiment.timelines, point),
            "part": name,
            "milliseconds": 1000 * seconds.mean,
            "share": percent(point.shares[name].mean, 1),
        }
        for point in experiment.timelines
        for name, seconds in point.seconds_per_step.items()
    ]
    of = f"{experiment.experiment} in parts of Horovod's work"
    colours = {name: _COLOURS[name] for name in names}
    yield parts_drawing("timeline", _CAPTION, of, rows, colours, is_stacked=False)


def methods(summary: Summary) -> Iterator[str]:
    """Explain the parts of timelines, if there are any."""
    if any(one.timelines for one in summary.experiments):
        yield (
            "Parts of Horovod's timeline, as rank 0 wrote it, overlap and do not add up; the "
            "share that the backward pass hides is unknown. Negotiation is waiting for the "
            "slowest rank. Writing a timeline takes time, so do not compare these runs' "
            "throughput."
        )

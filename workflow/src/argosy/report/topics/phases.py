"""Phases of a step: mean times at each size, and their chart."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from argosy.report.colours import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION
from argosy.report.drawing import Drawing, parts_drawing
from argosy.report.numbers import number
from argosy.report.runs.measurements import Point
from argosy.report.runs.steady import OTHER
from argosy.report.runs.study_tables import StudyTables
from argosy.report.sizes import same_width, size
from argosy.report.statistics.estimates import Estimate
from argosy.report.summary.models import ExperimentSummary, PointSummary, Summary
from argosy.report.table import (
    UNKNOWN,
    Cell,
    Quantity,
    Table,
    column,
    estimate,
    figure,
    in_order,
    size_columns,
)
from argosy.results.tables import PHASES

_COLUMNS = ("step_s", "samples", "steps", *PHASES, OTHER)
# An unnamed phase took no time; a phase that no step of a point names stays NULL. Means of means give every
# rank and repeat equal weight.
_MEANS = ", ".join(f"sum({name}) / count(*) AS {name}" for name in _COLUMNS)

_QUERY = f"""
WITH of_rank AS (
    SELECT experiment, run_id, rank, seconds / steps AS step_s, samples / steps AS samples,
        last + 1 AS steps, {", ".join(f"{phase} / steps AS {phase}" for phase in (*PHASES, OTHER))}
    FROM steady_rank
), of_run AS (
    SELECT experiment, run_id, {_MEANS} FROM of_rank GROUP BY ALL
)
SELECT experiment, nodes, ranks_per_node, runs.ranks, {_MEANS}
FROM of_run JOIN runs USING (experiment, run_id)
WHERE state = 'completed' AND len(missing_ranks) = 0
GROUP BY ALL ORDER BY experiment, ranks, nodes
"""


@dataclass(frozen=True)
class StepTime:
    """Mean seconds of a step and of its phases; `other` is outside all phases.

    `samples` counts a rank's samples per step; `steps` a rank's steps, warm-up included.
    """

    step_s: float
    phases_s: Mapping[str, float]
    samples: float
    steps: float


def step_times(tables: StudyTables) -> dict[tuple[str, Point], StepTime]:
    """Return step times by experiment and point: means over steps, then ranks, then repeats.

    Steps before the steady state and runs with missing ranks are excluded, as for throughput.
    """
    return {
        (row["experiment"], Point.of(row)): StepTime(
            step_s=row["step_s"],
            phases_s={name: row[name] for name in (*PHASES, OTHER) if row[name] is not None},
            samples=row["samples"],
            steps=row["steps"],
        )
        for row in tables.fetch(_QUERY)
    }


def phase_names(experiment: ExperimentSummary) -> list[str]:
    """Return the phases that any point of the experiment has, in the order of a step."""
    phases = (point.phases_s_per_step for point in experiment.points)
    return in_order((*PHASES, OTHER), phases)


_COLOURS = dict(
    zip((*PHASES, OTHER), (ORANGE, PURPLE, SKY, BLUE, VERMILION, GREEN, GREY), strict=True)
)


def drawings(experiment: ExperimentSummary) -> Iterator[Drawing]:
    """Yield the bar chart of phases, if there are any."""
    points = [point for point in experiment.points if point.phases_s_per_step]
    if not points:
        return
    names, by_nodes = phase_names(experiment), same_width(experiment)
    rows = [
        {
            "size": str(point.nodes) if by_nodes else f"{point.nodes} × {point.ranks_per_node}",
            "at": size(experiment, point),
            "part": phase,
            "milliseconds": 1000 * seconds,
        }
        for point in points
        for phase, seconds in point.phases_s_per_step.items()
    ]
    yield parts_drawing(
        "phases",
        "Where a step's time goes.",
        f"{experiment.experiment} in each phase",
        rows,
        {name: _COLOURS[name] for name in names},
        part="phase",
        title="nodes" if by_nodes else "nodes × ranks per node",
    )


def tables(experiment: ExperimentSummary) -> Iterator[Table]:
    """Yield the table of milliseconds per step in each phase, if there are any."""
    points = [point for point in experiment.points if point.phases_s_per_step]
    if not points:
        return
    yield Table(
        [
            *size_columns(points),
            *(
                column(points, name, partial(_milliseconds, name))
                for name in phase_names(experiment)
            ),
            column(
                points,
                "whole step",
                lambda one: figure(one.step_s, number(1000 * (one.step_s or 0.0))),
            ),
            column(points, "between steps", lambda one: estimate(one.between_steps, "tenths")),
        ],
        "Mean milliseconds of a step in each phase (other: in no named phase), and the share of the steady "
        "time between steps.",
        f"Phases of {experiment.experiment}",
        "phases",
        folded="Table of phases",
    )


def _milliseconds(phase: str, point: PointSummary) -> Cell:
    seconds = point.phases_s_per_step.get(phase)
    return UNKNOWN if seconds is None else figure(seconds, number(1000 * seconds))


def methods(summary: Summary) -> Iterator[str]:
    """Describe the means of phases, if there are any."""
    if any(one.phases_s_per_step for one in summary.points):
        yield (
            "Times of phases are means over steps, then ranks, then runs, with equal weights. "
            "Time between steps, such as validation and checkpoints, is excluded from steps and "
            "throughput."
        )


def quantities(point: PointSummary) -> Iterator[Quantity]:
    """Yield the rows of summary.csv on a step and its phases."""
    runs = len(point.runs_samples_per_s)
    if point.step_s is not None:
        yield "step", "s", Estimate(runs, point.step_s)
    for phase, seconds in point.phases_s_per_step.items():
        yield f"phase_{phase}", "s/step", Estimate(runs, seconds)

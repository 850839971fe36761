"""Where the time of a step goes, at each point."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from argosy.report import sizes as size_names
from argosy.report.colours import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION
from argosy.report.numbers import number
from argosy.report.runs.measurements import Point
from argosy.report.runs.steady import OTHER
from argosy.report.runs.study_tables import StudyTables
from argosy.report.summary.models import ExperimentSummary, PointSummary
from argosy.results.tables import PHASES

_COLUMNS = ("step_s", "samples", "steps", *PHASES, OTHER)

# A phase that is not named took no time; one that no step of a point names stays NULL. Means of
# means: every rank and every repeat weighs the same.
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
    """Mean seconds of a step, and of each phase in it; what no phase covers is `other`.

    `samples` are those of a rank's step, `steps` how many a rank made, warm-up included.
    """

    step_s: float
    phases_s: Mapping[str, float]
    samples: float
    steps: float


def step_times(tables: StudyTables) -> dict[tuple[str, Point], StepTime]:
    """Step times by (experiment, point): means over steps, then ranks, then repeats.

    Steps before the steady state and runs with missing ranks are left out, as for the throughput.
    """
    return {
        (row["experiment"], Point(row["ranks"], row["nodes"], row["ranks_per_node"])): StepTime(
            step_s=row["step_s"],
            phases_s={name: row[name] for name in (*PHASES, OTHER) if row[name] is not None},
            samples=row["samples"],
            steps=row["steps"],
        )
        for row in tables.fetch(_QUERY)
    }


def phase_names(experiment: ExperimentSummary) -> list[str]:
    """Return the phases that any point of the experiment has, in the order of a step."""
    found = {name for point in experiment.points for name in point.phases_s_per_step}
    return [name for name in (*PHASES, OTHER) if name in found]


_PHASE_COLOURS = (ORANGE, PURPLE, SKY, BLUE, VERMILION, GREEN, GREY)

PHASES_CAPTION = "Where a step's time goes."


def phase_colours(experiment: ExperimentSummary) -> dict[str, str]:
    """Return the colours of the phases that the experiment has, in the order of a step."""
    colours = dict(zip((*PHASES, OTHER), _PHASE_COLOURS, strict=True))
    return {name: colours[name] for name in phase_names(experiment)}


def phase_chart(experiment: ExperimentSummary, points: Sequence[PointSummary]) -> dict[str, Any]:
    """Return bars of the `points`, which all have times of phases."""
    colours = phase_colours(experiment)
    by_nodes = size_names.same_width(experiment)
    scale = {"domain": [*colours], "range": [*colours.values()]}
    return {
        "params": [{"name": "shown", "value": [*colours]}],
        "data": {"values": _phase_rows(experiment, points, by_nodes)},
        "transform": [{"filter": "indexof(shown, datum.phase) >= 0"}],
        "mark": {"type": "bar", "size": min(44, 260 // len(points))},
        "encoding": {
            "x": {
                "field": "size",
                "type": "ordinal",
                "title": "nodes" if by_nodes else "nodes × ranks per node",
                "sort": None,
                "axis": {"labelAngle": 0},
            },
            "y": {
                "field": "milliseconds",
                "type": "quantitative",
                "title": "milliseconds per step",
            },
            "color": {"field": "phase", "type": "nominal", "scale": scale},
            "order": {"field": "place", "type": "quantitative"},
            "tooltip": [
                {"field": "at", "type": "nominal", "title": "size"},
                {"field": "phase", "type": "nominal", "title": "phase"},
                {"field": "said", "type": "nominal", "title": "milliseconds per step"},
            ],
        },
    }


def _phase_rows(
    experiment: ExperimentSummary, points: Sequence[PointSummary], by_nodes: bool
) -> list[dict[str, Any]]:
    names = phase_names(experiment)
    return [
        {
            "size": str(point.nodes) if by_nodes else f"{point.nodes} × {point.ranks_per_node}",
            "phase": phase,
            "place": names.index(phase),
            "milliseconds": 1000 * seconds,
            "at": size_names.size(experiment, point),
            "said": number(1000 * seconds),
        }
        for point in points
        for phase, seconds in point.phases_s_per_step.items()
    ]

"""The chart of the phases of a step, in Vega-Lite: a bar for each size, its phases on each other."""

from collections.abc import Sequence
from typing import Any

from argosy.analysis.steady import OTHER
from argosy.report import words
from argosy.report.models import ExperimentSummary, PointSummary
from argosy.report.numbers import number
from argosy.results.tables import PHASES

_COLOURS = ("#E69F00", "#CC79A7", "#56B4E9", "#0072B2", "#D55E00", "#009E73", "#999999")
CAPTION = "Phases of a step: mean over steps, ranks and runs; other: in no named phase."


def phase_colours(experiment: ExperimentSummary) -> dict[str, str]:
    """The colours of the phases that the experiment has, in the order of a step."""
    colours = dict(zip((*PHASES, OTHER), _COLOURS, strict=True))
    return {name: colours[name] for name in words.phase_names(experiment)}


def phase_chart(experiment: ExperimentSummary, points: Sequence[PointSummary]) -> dict[str, Any]:
    """Bars of the `points`, which all have times of phases."""
    colours = phase_colours(experiment)
    by_nodes = words.same_width(experiment)
    scale = {"domain": [*colours], "range": [*colours.values()]}
    return {
        "params": [{"name": "shown", "value": [*colours]}],
        "data": {"values": _rows(experiment, points, by_nodes)},
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


def _rows(
    experiment: ExperimentSummary, points: Sequence[PointSummary], by_nodes: bool
) -> list[dict[str, Any]]:
    names = words.phase_names(experiment)
    return [
        {
            "size": str(point.nodes) if by_nodes else f"{point.nodes} × {point.ranks_per_node}",
            "phase": phase,
            "place": names.index(phase),
            "milliseconds": 1000 * seconds,
            "at": words.size(experiment, point),
            "said": number(1000 * seconds),
        }
        for point in points
        for phase, seconds in point.phases_s_per_step.items()
    ]

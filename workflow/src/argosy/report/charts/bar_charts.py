"""Charts of what a step is made of, in Vega-Lite: its phases, its stalls, Horovod's timelines."""

from collections.abc import Mapping, Sequence
from typing import Any

from argosy.report.numbers import number, percent, percent_interval
from argosy.report.prose import findings as words
from argosy.report.prose import size_names
from argosy.report.prose import stalls as stall_words
from argosy.report.prose import timelines as timeline_words
from argosy.report.runs.steady import OTHER
from argosy.report.summary.models import ExperimentSummary, PointSummary
from argosy.report.topics.stalls import PARTS as STALL_PARTS
from argosy.report.topics.timelines import PARTS as TIMELINE_PARTS
from argosy.results.tables import PHASES

_PHASE_COLOURS = ("#E69F00", "#CC79A7", "#56B4E9", "#0072B2", "#D55E00", "#009E73", "#999999")
PHASES_CAPTION = "Where a step's time goes."
_STALL_COLOURS = ("#56B4E9", "#CC79A7", "#D55E00", "#E69F00", "#009E73", "#0072B2")
STALLS_CAPTION = "What a step waits for: by how much it is shorter without each part."
_TIMELINE_COLOURS = ("#D55E00", "#E69F00", "#56B4E9", "#0072B2", "#999999")
TIMELINES_CAPTION = (
    "What Horovod did with gradients, by its timelines; the parts overlap each other."
)


def phase_colours(experiment: ExperimentSummary) -> dict[str, str]:
    """Return the colours of the phases that the experiment has, in the order of a step."""
    colours = dict(zip((*PHASES, OTHER), _PHASE_COLOURS, strict=True))
    return {name: colours[name] for name in words.phase_names(experiment)}


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
    names = words.phase_names(experiment)
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


def stall_colours(experiment: ExperimentSummary) -> dict[str, str]:
    """Return the colours of the parts that the experiment has, in their order."""
    colours = dict(zip(STALL_PARTS, _STALL_COLOURS, strict=True))
    return {name: colours[name] for name in stall_words.part_names(experiment)}


def stall_chart(experiment: ExperimentSummary) -> dict[str, Any]:
    """Return bars of the sizes whose stalls are known."""
    colours, rows = stall_colours(experiment), _stall_rows(experiment)
    on_each_other = {"field": "place", "type": "quantitative"}
    chart = _part_chart(rows, colours, order=on_each_other)
    width = min(44, 260 // len({row["size"] for row in rows}))
    return chart | {"mark": {"type": "bar", "size": width}}


def _stall_rows(experiment: ExperimentSummary) -> list[dict[str, Any]]:
    names = stall_words.part_names(experiment)
    return [
        {
            "size": size_names.name_among(experiment.stalls, stalls),
            "part": name,
            "place": names.index(name),
            "milliseconds": 1000 * stalls.step_s.mean * share.mean,
            "said": number(1000 * stalls.step_s.mean * share.mean),
            "share": f"{percent(share.mean, 1)} ({percent_interval(share, 1)})",
        }
        for stalls in experiment.stalls
        if stalls.step_s
        for name, share in stalls.shares.items()
    ]


def timeline_colours(experiment: ExperimentSummary) -> dict[str, str]:
    """Return the colours of the parts that the experiment has, in their order."""
    colours = dict(zip(TIMELINE_PARTS, _TIMELINE_COLOURS, strict=True))
    return {name: colours[name] for name in timeline_words.part_names(experiment)}


def timeline_chart(experiment: ExperimentSummary) -> dict[str, Any]:
    """Return bars of the sizes whose timelines are known."""
    colours = timeline_colours(experiment)
    beside = {"field": "part", "type": "nominal", "sort": [*colours]}
    return _part_chart(_timeline_rows(experiment), colours, xOffset=beside)


def _timeline_rows(experiment: ExperimentSummary) -> list[dict[str, Any]]:
    return [
        {
            "size": size_names.name_among(experiment.timelines, point),
            "part": name,
            "milliseconds": 1000 * seconds.mean,
            "said": number(1000 * seconds.mean),
            "share": percent(point.shares[name].mean, 1),
        }
        for point in experiment.timelines
        for name, seconds in point.seconds_per_step.items()
    ]


def _part_chart(
    rows: Sequence[Mapping[str, Any]], colours: Mapping[str, str], **more: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a bar for each of the `rows`, which have `size`, `part`, `milliseconds`, `said` and `share`.

    `colours` are by part, in their order; `more` are further channels: how bars stand to each other.
    """
    return {
        "params": [{"name": "shown", "value": [*colours]}],
        "data": {"values": [*rows]},
        "transform": [{"filter": "indexof(shown, datum.part) >= 0"}],
        "mark": "bar",
        "encoding": {
            "x": {
                "field": "size",
                "type": "ordinal",
                "title": None,
                "sort": None,
                "axis": {"labelAngle": 0},
            },
            "y": {
                "field": "milliseconds",
                "type": "quantitative",
                "title": "milliseconds per step",
            },
            "color": {
                "field": "part",
                "type": "nominal",
                "scale": {"domain": [*colours], "range": [*colours.values()]},
            },
            "tooltip": [
                {"field": "size", "type": "nominal", "title": "size"},
                {"field": "part", "type": "nominal", "title": "part"},
                {"field": "said", "type": "nominal", "title": "milliseconds per step"},
                {"field": "share", "type": "nominal", "title": "share of the step"},
            ],
            **more,
        },
    }

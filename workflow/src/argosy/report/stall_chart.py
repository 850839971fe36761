"""The chart of what steps wait for, in Vega-Lite: a bar for each size, its parts on each other."""

from typing import Any

from argosy.analysis.stalls import PARTS
from argosy.report import stall_words
from argosy.report.models import ExperimentSummary
from argosy.report.numbers import number, percent, percent_interval

_COLOURS = ("#56B4E9", "#CC79A7", "#D55E00", "#E69F00", "#009E73", "#0072B2")
CAPTION = "What a step waits for: by how much it is shorter without each part."


def stall_colours(experiment: ExperimentSummary) -> dict[str, str]:
    """The colours of the parts that the experiment has, in their order."""
    colours = dict(zip(PARTS, _COLOURS, strict=True))
    return {name: colours[name] for name in stall_words.part_names(experiment)}


def stall_chart(experiment: ExperimentSummary) -> dict[str, Any]:
    """Bars of the sizes whose stalls are known."""
    colours = stall_colours(experiment)
    rows = _rows(experiment)
    return {
        "params": [{"name": "shown", "value": [*colours]}],
        "data": {"values": rows},
        "transform": [{"filter": "indexof(shown, datum.part) >= 0"}],
        "mark": {"type": "bar", "size": min(44, 260 // len({row["size"] for row in rows}))},
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
            "order": {"field": "place", "type": "quantitative"},
            "tooltip": [
                {"field": "size", "type": "nominal", "title": "size"},
                {"field": "part", "type": "nominal", "title": "part"},
                {"field": "said", "type": "nominal", "title": "milliseconds per step"},
                {"field": "share", "type": "nominal", "title": "share of the step"},
            ],
        },
    }


def _rows(experiment: ExperimentSummary) -> list[dict[str, Any]]:
    names = stall_words.part_names(experiment)
    return [
        {
            "size": stall_words.size(experiment, stalls),
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

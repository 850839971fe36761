"""The chart of Horovod's timelines, in Vega-Lite: bars beside each other, since their parts overlap."""

from typing import Any

from argosy.analysis.timelines import PARTS
from argosy.report import timeline_words
from argosy.report.models import ExperimentSummary
from argosy.report.numbers import number, percent

_COLOURS = ("#D55E00", "#E69F00", "#56B4E9", "#0072B2", "#999999")
CAPTION = "What Horovod did with gradients, by its timelines; the parts overlap each other."


def timeline_colours(experiment: ExperimentSummary) -> dict[str, str]:
    """The colours of the parts that the experiment has, in their order."""
    colours = dict(zip(PARTS, _COLOURS, strict=True))
    return {name: colours[name] for name in timeline_words.part_names(experiment)}


def timeline_chart(experiment: ExperimentSummary) -> dict[str, Any]:
    """Bars of the sizes whose timelines are known."""
    colours = timeline_colours(experiment)
    scale = {"domain": [*colours], "range": [*colours.values()]}
    return {
        "params": [{"name": "shown", "value": [*colours]}],
        "data": {"values": _rows(experiment)},
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
            "xOffset": {"field": "part", "type": "nominal", "sort": [*colours]},
            "y": {
                "field": "milliseconds",
                "type": "quantitative",
                "title": "milliseconds per step",
            },
            "color": {"field": "part", "type": "nominal", "scale": scale},
            "tooltip": [
                {"field": "size", "type": "nominal", "title": "size"},
                {"field": "part", "type": "nominal", "title": "part"},
                {"field": "said", "type": "nominal", "title": "milliseconds per step"},
                {"field": "share", "type": "nominal", "title": "share of the step"},
            ],
        },
    }


def _rows(experiment: ExperimentSummary) -> list[dict[str, Any]]:
    return [
        {
            "size": timeline_words.size(experiment, point),
            "part": name,
            "milliseconds": 1000 * seconds.mean,
            "said": number(1000 * seconds.mean),
            "share": percent(point.shares[name].mean, 1),
        }
        for point in experiment.timelines
        for name, seconds in point.seconds_per_step.items()
    ]

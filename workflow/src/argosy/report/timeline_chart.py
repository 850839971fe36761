"""The chart of Horovod's timelines, in Vega-Lite: bars beside each other, since their parts overlap."""

from typing import Any

from argosy.analysis.timelines import PARTS
from argosy.report import timeline_words, words
from argosy.report.models import ExperimentSummary
from argosy.report.numbers import number, percent
from argosy.report.part_chart import part_chart

_COLOURS = ("#D55E00", "#E69F00", "#56B4E9", "#0072B2", "#999999")
CAPTION = "What Horovod did with gradients, by its timelines; the parts overlap each other."


def timeline_colours(experiment: ExperimentSummary) -> dict[str, str]:
    """The colours of the parts that the experiment has, in their order."""
    colours = dict(zip(PARTS, _COLOURS, strict=True))
    return {name: colours[name] for name in timeline_words.part_names(experiment)}


def timeline_chart(experiment: ExperimentSummary) -> dict[str, Any]:
    """Bars of the sizes whose timelines are known."""
    colours = timeline_colours(experiment)
    beside = {"field": "part", "type": "nominal", "sort": [*colours]}
    return part_chart(_rows(experiment), colours, xOffset=beside)


def _rows(experiment: ExperimentSummary) -> list[dict[str, Any]]:
    return [
        {
            "size": words.name_among(experiment.timelines, point),
            "part": name,
            "milliseconds": 1000 * seconds.mean,
            "said": number(1000 * seconds.mean),
            "share": percent(point.shares[name].mean, 1),
        }
        for point in experiment.timelines
        for name, seconds in point.seconds_per_step.items()
    ]

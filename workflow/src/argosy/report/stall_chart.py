"""The chart of what steps wait for, in Vega-Lite: a bar for each size, its parts on each other."""

from typing import Any

from argosy.analysis.stalls import PARTS
from argosy.report import stall_words, words
from argosy.report.models import ExperimentSummary
from argosy.report.numbers import number, percent, percent_interval
from argosy.report.part_chart import part_chart

_COLOURS = ("#56B4E9", "#CC79A7", "#D55E00", "#E69F00", "#009E73", "#0072B2")
CAPTION = "What a step waits for: by how much it is shorter without each part."


def stall_colours(experiment: ExperimentSummary) -> dict[str, str]:
    """The colours of the parts that the experiment has, in their order."""
    colours = dict(zip(PARTS, _COLOURS, strict=True))
    return {name: colours[name] for name in stall_words.part_names(experiment)}


def stall_chart(experiment: ExperimentSummary) -> dict[str, Any]:
    """Bars of the sizes whose stalls are known."""
    colours, rows = stall_colours(experiment), _rows(experiment)
    on_each_other = {"field": "place", "type": "quantitative"}
    chart = part_chart(rows, colours, order=on_each_other)
    width = min(44, 260 // len({row["size"] for row in rows}))
    return chart | {"mark": {"type": "bar", "size": width}}


def _rows(experiment: ExperimentSummary) -> list[dict[str, Any]]:
    names = stall_words.part_names(experiment)
    return [
        {
            "size": words.name_among(experiment.stalls, stalls),
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

"""Bars of what a step is made of, in Vega-Lite: what the charts of stalls and timelines share."""

from collections.abc import Mapping, Sequence
from typing import Any


def part_chart(
    rows: Sequence[Mapping[str, Any]], colours: Mapping[str, str], **more: Mapping[str, Any]
) -> dict[str, Any]:
    """A bar for each of the `rows`, which have `size`, `part`, `milliseconds`, `said` and `share`.

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

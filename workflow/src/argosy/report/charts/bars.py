"""Bar charts of what a step is made of, in Vega-Lite."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from argosy.report.numbers import number
from argosy.report.summary.models import ExperimentSummary


def part_chart(
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


def of_parts(experiment: ExperimentSummary, what: str, rows: Iterable[Sequence[Any]]) -> str:
    """Return bars of a step's milliseconds; `rows` are a size, the name of a part, and its milliseconds."""
    by_size: dict[str, list[str]] = {}
    for size, part, milliseconds in rows:
        by_size.setdefault(size, []).append(f"{part} {number(milliseconds)}")
    said = "; ".join(f"{size} {', '.join(parts)}" for size, parts in by_size.items())
    return f"Bar chart of the milliseconds per step of {experiment.experiment} {what}: {said}."

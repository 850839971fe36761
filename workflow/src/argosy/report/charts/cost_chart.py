"""The chart of what time costs, in Vega-Lite: price over hours of a million samples, a dot a size."""

from typing import Any

from argosy.report.charts.size_layers import BLUE, GREY
from argosy.report.numbers import number
from argosy.report.prose import size_names
from argosy.report.summary.models import ExperimentSummary, PointSummary

CAPTION = "Price over time for a million samples; the line joins sizes that no other beats in both."


def priced(experiment: ExperimentSummary) -> list[PointSummary]:
    """Return the sizes that have a price."""
    return [point for point in experiment.points if point.costs and point.costs.price]


def best(points: list[PointSummary]) -> list[PointSummary]:
    """Return the sizes than which no other is both faster and cheaper, by their means (Pareto's front)."""
    found: list[PointSummary] = []
    for point in sorted(points, key=lambda one: (_hours(one), _price(one))):
        if not found or _price(point) < _price(found[-1]):
            found.append(point)
    return found


def cost_chart(experiment: ExperimentSummary, currency: str) -> dict[str, Any]:
    """Return the price over the hours of a million samples, as charged where that is known."""
    points = priced(experiment)
    front = best(points)
    rows = [
        {
            "hours": _hours(point),
            "price": _price(point),
            "at": size_names.size(experiment, point),
            "hours_said": number(_hours(point)),
            "price_said": number(_price(point)),
            "best": point in front,
        }
        for point in points
    ]
    dot = {"type": "point", "filled": True, "size": 55, "opacity": 1}
    told = [
        {"field": field, "type": "nominal", "title": title}
        for field, title in (("at", "size"), ("hours_said", "hours"), ("price_said", currency))
    ]
    name = {"type": "text", "align": "left", "dx": 5, "dy": -10, "fontSize": 11}
    return {
        "data": {"values": rows},
        "encoding": {"x": _axis("hours", "hours"), "y": _axis("price", currency)},
        "layer": [
            {
                "transform": [{"filter": "datum.best"}],
                "mark": {"type": "line", "strokeDash": [5, 4], "color": GREY},
                "encoding": {"order": {"field": "hours"}},
            },
            {"mark": dot | {"color": BLUE}, "encoding": {"tooltip": told}},
            {"mark": name, "encoding": {"text": {"field": "at", "type": "nominal"}}},
        ],
    }


def text(experiment: ExperimentSummary, currency: str) -> str:
    """Return what the chart says, for a reader who does not see it."""
    said = "; ".join(
        f"{size_names.size(experiment, point)} {number(_hours(point))} hours, "
        f"{number(_price(point))} {currency}"
        for point in priced(experiment)
    )
    return f"Chart of price over hours of {experiment.experiment} for a million samples: {said}."


def _hours(point: PointSummary) -> float:
    """Return the hours of a job of a million samples; of its steps alone where more is not known."""
    assert point.costs
    charged = point.costs.charged_node_hours
    return charged.mean / point.nodes if charged else point.costs.hours.mean


def _price(point: PointSummary) -> float:
    assert point.costs and point.costs.price
    return point.costs.price.mean


def _axis(field: str, title: str) -> dict[str, Any]:
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "axis": {"tickCount": 6, "labelOverlap": "greedy"},
    }

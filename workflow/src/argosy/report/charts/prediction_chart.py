"""The chart of a prediction in Vega-Lite: throughput as predicted, and beside it what was measured."""

from typing import Any

from argosy.report.numbers import count, interval, number, percent
from argosy.report.summary.prediction import PredictedPoint, PredictionSummary

CAPTION = (
    "Predicted beside measured. Line: predicted throughput; band: its 95 % interval of a run to come; "
    "dots: measured. Both axes are logarithmic."
)
PREDICTED, MEASURED = "predicted", "measured"
COLOURS = {PREDICTED: "#0072B2", MEASURED: "#D55E00"}


def text(found: PredictionSummary) -> str:
    """Return what the chart says, for a reader who does not see it."""
    compared = [
        f"{count(point.nodes, 'node')} {number(point.samples_per_s.mean)} samples/s predicted, "
        f"{number(point.measured_samples_per_s)} measured"
        for point in found.points
        if point.measured_samples_per_s is not None
    ]
    last = found.points[-1]
    farthest = f"{count(last.nodes, 'node')} {number(last.samples_per_s.mean)} samples/s predicted"
    said = compared if last.measured_samples_per_s is not None else [*compared, f"up to {farthest}"]
    listed = "; ".join(said)
    return f"Line chart of throughput: {listed}. The table of the prediction has all sizes."


def prediction_chart(found: PredictionSummary) -> dict[str, Any]:
    """Return samples a second over the nodes, both on logarithmic axes."""
    nodes = [point.nodes for point in found.points]
    area = {"type": "area", "opacity": 0.2}
    dot = {"type": "point", "filled": True, "size": 55, "opacity": 1}
    small = dot | {"size": 18}
    return {
        "params": [{"name": "shown", "value": [*COLOURS]}],
        "data": {"values": [_row(point) for point in found.points]},
        "encoding": {
            "x": {
                "field": "nodes",
                "type": "quantitative",
                "title": "nodes",
                "scale": {"type": "log", "base": 2},
                "axis": {"values": nodes, "format": "d", "grid": False, "labelOverlap": "greedy"},
            }
        },
        "layer": [
            _layer(PREDICTED, area, "low", y=_y("low"), y2={"field": "high"}),
            _layer(PREDICTED, {"type": "line"}, y=_y(PREDICTED)),
            _layer(PREDICTED, small, y=_y(PREDICTED), tooltip=_TOLD),
            _layer(MEASURED, dot, y=_y(MEASURED), tooltip=_TOLD),
        ],
    }


_TOLD = [
    {"field": field, "type": "nominal", "title": title}
    for field, title in (
        ("at", "size"),
        ("rate", "predicted"),
        ("interval", "95 % interval"),
        ("found", "measured"),
        ("error", "error"),
    )
]


def _layer(
    series: str, mark: dict[str, Any], needed: str | None = None, **encoding: Any
) -> dict[str, Any]:
    shown = f"indexof(shown, '{series}') >= 0 && isValid(datum.{needed or series})"
    colour = {"value": COLOURS[series]}
    return {
        "transform": [{"filter": shown}],
        "mark": mark,
        "encoding": encoding | {"color": colour},
    }


def _y(field: str) -> dict[str, Any]:
    return {
        "field": field,
        "type": "quantitative",
        "title": "samples/s",
        "scale": {"type": "log", "nice": True},
        "axis": {"tickCount": 5},
    }


def _row(point: PredictedPoint) -> dict[str, Any]:
    rate, measured = point.samples_per_s, point.measured_samples_per_s
    return {
        "nodes": point.nodes,
        PREDICTED: rate.mean,
        "low": rate.low,
        "high": rate.high,
        MEASURED: measured,
        "at": count(point.nodes, "node"),
        "rate": number(rate.mean),
        "interval": interval(rate),
        "found": number(measured),
        "error": percent(point.error, 1),
    }

"""What a chart over the size is made of: layers of Vega-Lite over the data sets `means`, `runs`, `curve`.

The parameter `shown` holds the names of the series that a reader wants to see.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from argosy.report.colours import GREY

SINGLE, IDEAL = "single runs", "ideal"
_OWN_SERIES = "indexof(shown, datum.series) >= 0"

Layer = dict[str, Any]


@dataclass(frozen=True)
class Frame:
    """The axes, which all layers share: `sizes` have ticks; `bottom` and `top` end the other axis.

    Sizes that are powers of two have a logarithmic axis. The other one is logarithmic where `bottom` is
    above 0. `series` are the colours of all that is drawn, by name, as the legend has them.
    """

    unit: str
    title: str
    axis_format: str
    sizes: list[float]
    top: float
    series: dict[str, str]
    bottom: float = 0.0

    def layer(self, data: str, shown: str, mark: dict[str, Any], **encoding: Any) -> Layer:
        """Return a layer of those rows for which the expression `shown` holds."""
        return {
            "data": {"name": data},
            "transform": [{"filter": shown}],
            "mark": mark,
            "encoding": {"x": self._x(), "y": self.y("y")} | encoding,
        }

    def _x(self) -> dict[str, Any]:
        low, high = self.sizes[0], self.sizes[-1]
        scale: dict[str, Any] = {"domain": [0, 1.06 * high]}
        if are_powers_of_two(self.sizes):
            scale = {"type": "log", "base": 2, "domain": [low / 1.15, 1.15 * high], "nice": False}
        return {
            "field": "size",
            "type": "quantitative",
            "title": self.unit,
            "axis": {
                "values": self.sizes,
                "format": "d",
                "grid": False,
                "labelOverlap": "greedy",
            },
            "scale": scale,
        }

    def y(self, field: str) -> dict[str, Any]:
        return {
            "field": field,
            "type": "quantitative",
            "title": self.title,
            "axis": {"format": self.axis_format, "tickCount": 6, "labelOverlap": "greedy"},
            "scale": {"domain": [self.bottom, self.top]}
            | ({"type": "log", "nice": False} if self.bottom else {}),
        }

    def colour(self) -> dict[str, Any]:
        scale = {"domain": [*self.series], "range": [*self.series.values()]}
        return {"field": "series", "type": "nominal", "scale": scale}


def are_powers_of_two(sizes: Sequence[float]) -> bool:
    """Return whether there are several sizes, each of them a power of two."""
    return len(sizes) > 1 and all(math.log2(size).is_integer() for size in sizes)


def layers(frame: Frame, has_runs: bool, has_curve: bool) -> Iterator[Layer]:
    """Yield all layers, the lowest first."""
    dashed = {"type": "line", "color": GREY, "strokeDash": [5, 4], "clip": True}
    yield frame.layer("means", _has(IDEAL), dashed, y=frame.y("ideal"))
    if has_curve:
        line = {"type": "line", "strokeWidth": 1.5, "clip": True, "interpolate": "monotone"}
        yield frame.layer("curve", _OWN_SERIES, line, color=frame.colour())
    means, intervals, dots = means_layers(frame)
    yield means
    yield intervals
    if has_runs:
        yield _rings(frame)
    yield dots


def lines_chart(frame: Frame, means: Sequence[Mapping[str, object]]) -> dict[str, Any]:
    """Return a chart of a line for each of the frame's series through its `means`."""
    return {
        "params": [{"name": "shown", "value": [*frame.series]}],
        "datasets": {"means": [*means]},
        "layer": list(means_layers(frame)),
    }


def means_layers(frame: Frame) -> tuple[Layer, Layer, Layer]:
    """Return a line through the means, their intervals, and dots."""
    line = {"type": "line", "strokeWidth": 1.5, "opacity": 0.5}
    return (
        frame.layer("means", _OWN_SERIES, line, color=frame.colour()),
        _intervals(frame),
        _dots(frame),
    )


def _has(series: str) -> str:
    return f"indexof(shown, '{series}') >= 0"


def _intervals(frame: Frame) -> Layer:
    rule = {"type": "rule", "strokeWidth": 2, "clip": True}
    ends = {"y": frame.y("low"), "y2": {"field": "high"}}
    return frame.layer(
        "means", f"{_OWN_SERIES} && isValid(datum.low)", rule, color=frame.colour(), **ends
    )


def _rings(frame: Frame) -> Layer:
    ring = {"type": "point", "filled": False, "size": 40, "strokeWidth": 1, "opacity": 0.7}
    told = [_told("said", f"{frame.title}, single run")]
    shown = f"{_OWN_SERIES} && {_has(SINGLE)}"
    return frame.layer("runs", shown, ring, color=frame.colour(), tooltip=told)


def _dots(frame: Frame) -> Layer:
    dot = {"type": "point", "filled": True, "size": 55, "opacity": 1}
    # A clear rim, so that the pointer need not meet the dot exactly.
    dot |= {"stroke": "transparent", "strokeWidth": 10}
    titles = {"at": "size", "said": frame.title, "interval": "95 % interval", "n": "runs"}
    told = [_told(field, title) for field, title in titles.items()]
    return frame.layer("means", _OWN_SERIES, dot, color=frame.colour(), tooltip=told)


def _told(field: str, title: str) -> dict[str, str]:
    return {"field": field, "type": "nominal", "title": title}

"""Building blocks of charts in Vega-Lite: bars of parts of a step, and layers over the size.

The page's style sheet colours text and axes, so they follow its theme. The parameter `shown` has the names
of the visible series.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from argosy.report.colours import GREY
from argosy.report.numbers import number

_WIDTH, _HEIGHT = 440, 185
_FONT = "Helvetica, Arial, sans-serif"


@dataclass(frozen=True)
class Drawing:
    """A chart as a specification, not drawn yet.

    Args:
        name: Part of a file name.
        kind: The class in the style sheet, and the end of the id of the table with the same numbers:
            `scaling`, `phases`, `stalls`, `timeline`, `prediction` or `history`.
        text: Alternative text, with all numbers of the chart.
        spec: Vega-Lite, with its data.
        series: Colours by the names that the parameter `shown` may have.
    """

    name: str
    kind: str
    caption: str
    text: str
    spec: dict[str, Any]
    series: dict[str, str] = field(default_factory=dict)


def finished(chart: dict[str, Any]) -> dict[str, Any]:
    """Add the size and style that all charts share."""
    letters = {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"}
    return chart | {
        "width": _WIDTH,
        "height": _HEIGHT,
        "background": "transparent",
        "autosize": {"type": "fit", "contains": "padding"},
        "config": {
            "font": _FONT,
            "view": {"stroke": None},
            "axis": letters | {"titlePadding": 8},
            # The page disables this legend and makes one of buttons.
            "legend": letters
            | {"orient": "bottom", "columns": 4, "title": None, "symbolOpacity": 1},
        },
    }


def tooltip(**titles: str) -> list[dict[str, str]]:
    """Return a tooltip that shows these fields of a row under their titles."""
    return [{"field": name, "type": "nominal", "title": title} for name, title in titles.items()]


def parts_drawing(
    name: str,
    caption: str,
    of: str,
    rows: Sequence[Mapping[str, Any]],
    colours: dict[str, str],
    *,
    is_stacked: bool = True,
    part: str = "part",
    title: str | None = None,
) -> Drawing:
    """Return a bar chart of the parts of a step.

    Args:
        of: End of the alternative text after "milliseconds per step of".
        rows: A bar each, with `size`, `part` and `milliseconds`. It may have `at`, the size in words, and
            `share`, the share of the step.
        colours: Colours by part, in order.
        is_stacked: Whether the bars of a size are on each other; else they are side by side.
        part: Title of a part in the tooltip.
        title: Title of the axis of sizes.
    """
    names, by_size = [*colours], dict[str, list[str]]()
    bars = [
        {"at": row["size"], **row}
        | {"place": names.index(row["part"]), "said": number(row["milliseconds"])}
        for row in rows
    ]
    for each in bars:
        by_size.setdefault(each["at"], []).append(f"{each['part']} {each['said']}")
    said = "; ".join(f"{size} {', '.join(parts)}" for size, parts in by_size.items())
    text = f"Bar chart of the milliseconds per step of {of}: {said}."
    share = {"share": "share of the step"} if any("share" in row for row in rows) else {}
    x = {"field": "size", "type": "ordinal", "title": title, "sort": None}
    beside = {"xOffset": {"field": "part", "type": "nominal", "sort": names}}
    on_each_other = {"order": {"field": "place", "type": "quantitative"}}
    chart = {
        "params": [{"name": "shown", "value": names}],
        "data": {"values": bars},
        "transform": [{"filter": "indexof(shown, datum.part) >= 0"}],
        "mark": {"type": "bar", "size": min(44, 260 // len(by_size))} if is_stacked else "bar",
        "encoding": {
            "x": x | {"axis": {"labelAngle": 0}},
            "y": {
                "field": "milliseconds",
                "type": "quantitative",
                "title": "milliseconds per step",
            },
            "color": _colour("part", colours),
            **(on_each_other if is_stacked else beside),
            "tooltip": tooltip(at="size", part=part, said="milliseconds per step", **share),
        },
    }
    return Drawing(name, name, caption, text, finished(chart), colours)


def _colour(field: str, colours: Mapping[str, str]) -> dict[str, Any]:
    scale = {"domain": [*colours], "range": [*colours.values()]}
    return {"field": field, "type": "nominal", "scale": scale}


SINGLE, IDEAL = "single runs", "ideal"
_OWN_SERIES = "indexof(shown, datum.series) >= 0"

Layer = dict[str, Any]


@dataclass(frozen=True)
class Frame:
    """Axes of a chart of lines, shared by its layers.

    Args:
        x: The channel of the horizontal axis.
        title: Title of the vertical axis; `axis_format` and `scale` are for its numbers.
        series: Colours by name, as in the legend.
        told: The tooltip of a mean.
    """

    x: dict[str, Any]
    title: str
    axis_format: str
    scale: dict[str, Any]
    series: dict[str, str]
    told: list[dict[str, str]]

    def layer(self, data: str, shown: str, mark: dict[str, Any], **encoding: Any) -> Layer:
        """Return a layer of the rows that match the expression `shown`."""
        return {
            "data": {"name": data},
            "transform": [{"filter": shown}],
            "mark": mark,
            "encoding": {"x": self.x, "y": self.y("y")} | encoding,
        }

    def y(self, field: str) -> dict[str, Any]:
        return {
            "field": field,
            "type": "quantitative",
            "title": self.title,
            "axis": {"format": self.axis_format, "tickCount": 6, "labelOverlap": "greedy"},
            "scale": self.scale,
        }

    def colour(self) -> dict[str, Any]:
        return _colour("series", self.series)


def over_sizes(
    *,
    unit: str,
    title: str,
    axis_format: str,
    sizes: list[float],
    top: float,
    series: dict[str, str],
    bottom: float = 0.0,
) -> Frame:
    """Return the axes of a chart over the size.

    The axis of sizes is logarithmic if all are powers of two; the other axis if `bottom` is above 0.

    Args:
        unit: Title of the axis of sizes, which has a tick for each of `sizes`.
        top: End of the other axis, which begins at `bottom`.
    """
    low, high = sizes[0], sizes[-1]
    scale: dict[str, Any] = {"domain": [0, 1.06 * high]}
    if are_powers_of_two(sizes):
        scale = {"type": "log", "base": 2, "domain": [low / 1.15, 1.15 * high], "nice": False}
    x = {
        "field": "size",
        "type": "quantitative",
        "title": unit,
        "axis": {"values": sizes, "format": "d", "grid": False, "labelOverlap": "greedy"},
        "scale": scale,
    }
    y: dict[str, Any] = {"domain": [bottom, top]}
    if bottom:
        y |= {"type": "log", "nice": False}
    told = tooltip(at="size", said=title, interval="95 % interval", n="runs")
    return Frame(x, title, axis_format, y, series, told)


def are_powers_of_two(sizes: Sequence[float]) -> bool:
    """Check that there are several sizes, all powers of two."""
    return len(sizes) > 1 and all(math.log2(size).is_integer() for size in sizes)


def layers(frame: Frame, has_runs: bool, has_curve: bool) -> Iterator[Layer]:
    """Yield all layers, bottom to top."""
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


def lines_drawing(
    name: str,
    caption: str,
    text: str,
    frame: Frame,
    means: Sequence[Mapping[str, object]],
    *,
    kind: str = "scaling",
) -> Drawing:
    """Return a chart with a line through the `means` of each series."""
    chart = {
        "params": [{"name": "shown", "value": [*frame.series]}],
        "datasets": {"means": [*means]},
        "layer": list(means_layers(frame)),
    }
    return Drawing(name, kind, caption, text, finished(chart), frame.series)


def means_layers(frame: Frame) -> tuple[Layer, Layer, Layer]:
    """Return three layers: a line through the means, their intervals, and dots."""
    line = {"type": "line", "strokeWidth": 1.5, "opacity": 0.5}
    return (
        frame.layer("means", _OWN_SERIES, line, color=frame.colour()),
        _intervals(frame),
        _dots(frame),
    )


def _has(series: str) -> str:
    return f"indexof(shown, '{series}') >= 0"


def _intervals(frame: Frame) -> Layer:
    # Only fixed ends of an axis may cut an interval.
    rule = {"type": "rule", "strokeWidth": 2, "clip": "domain" in frame.scale}
    ends = {"y": frame.y("low"), "y2": {"field": "high"}}
    return frame.layer(
        "means", f"{_OWN_SERIES} && isValid(datum.low)", rule, color=frame.colour(), **ends
    )


def _rings(frame: Frame) -> Layer:
    ring = {"type": "point", "filled": False, "size": 40, "strokeWidth": 1, "opacity": 0.7}
    told = tooltip(said=f"{frame.title}, single run")
    shown = f"{_OWN_SERIES} && {_has(SINGLE)}"
    return frame.layer("runs", shown, ring, color=frame.colour(), tooltip=told)


def _dots(frame: Frame) -> Layer:
    dot = {"type": "point", "filled": True, "size": 55, "opacity": 1}
    # A transparent rim makes the dot easier to hover over.
    dot |= {"stroke": "transparent", "strokeWidth": 10}
    return frame.layer("means", _OWN_SERIES, dot, color=frame.colour(), tooltip=frame.told)

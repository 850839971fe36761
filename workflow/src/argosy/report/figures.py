"""Charts as SVG text, to be written into the page.

Colours are those of Okabe and Ito, told apart by readers with any colour vision. Text and axes are
coloured by the page's style sheet, so that they follow a light or a dark page.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import vl_convert
from markupsafe import Markup

from argosy.analysis.phases import OTHER
from argosy.analysis.statistics import Estimate
from argosy.report import numbers, words
from argosy.report.models import ExperimentSummary, PointSummary
from argosy.results.tables import PHASES

_BLUE, _GREY = "#0072B2", "#999999"
_SERIES = (_BLUE, "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_PHASES = ("#E69F00", "#CC79A7", "#56B4E9", _BLUE, "#D55E00", "#009E73", _GREY)
_WIDTH, _HEIGHT = 440, 290
_FONT = "Helvetica, Arial, sans-serif"


@dataclass(frozen=True)
class Figure:
    """A chart: `svg` for the eye; `text` says the same to a reader who does not see it.

    `kind` (`scaling` or `phases`) is its class in the style sheet.
    """

    kind: str
    caption: str
    text: str
    svg: Markup


@dataclass(frozen=True)
class Drawing:
    """A chart that is not drawn yet: `spec` is Vega-Lite with its data; `name` fits in a file's name."""

    name: str
    kind: str
    caption: str
    text: str
    spec: dict[str, Any]


@dataclass(frozen=True)
class _Quantity:
    """What one of the charts over the size shows; `field` is the estimate's name in a point."""

    name: str
    field: str
    title: str
    caption: str
    axis_format: str = ",~r"
    grows: bool = True

    def of(self, point: PointSummary) -> Estimate:
        estimate = getattr(point, self.field)
        assert isinstance(estimate, Estimate)
        return estimate

    def say(self, value: float) -> str:
        return numbers.percent(value) if "%" in self.axis_format else numbers.number(value)


_QUANTITIES = (
    _Quantity(
        name="throughput",
        field="throughput_samples_per_s",
        title="samples per second",
        caption="Throughput. Dots: mean of the runs with its 95 % interval; rings: single runs; "
        "dashed: ideal, in proportion to the base.",
    ),
    _Quantity(
        name="speed-up",
        field="speed_up",
        title="speed-up",
        caption="Speed-up. Dots: mean throughput over that of the base, with 95 % interval; "
        "dashed: ideal.",
    ),
    _Quantity(
        name="efficiency",
        field="efficiency",
        title="efficiency",
        caption="Efficiency. Dots: speed-up over the growth in ranks, with 95 % interval; "
        "dashed: ideal.",
        axis_format=".0%",
        grows=False,
    ),
)


def figures(experiment: ExperimentSummary, prefix: str) -> list[Figure]:
    """All charts of an experiment; `prefix` keeps the ids in their SVG apart from other charts'."""
    return [
        Figure(each.kind, each.caption, each.text, _svg(each.spec, f"{prefix}-{place}-"))
        for place, each in enumerate(drawings(experiment))
    ]


def drawings(experiment: ExperimentSummary) -> Iterator[Drawing]:
    """What is drawn of an experiment."""
    measured = [point for point in experiment.points if point.throughput_samples_per_s]
    for quantity in _QUANTITIES if measured else ():
        said = [
            f"{words.size(experiment, point)} {quantity.say(quantity.of(point).mean)}"
            for point in measured
        ]
        text = f"{quantity.title.capitalize()}: {words.listed(said)}."
        chart = _over_size(experiment, measured, quantity)
        yield Drawing(quantity.name, "scaling", quantity.caption, text, _finished(chart))
    timed = [point for point in experiment.points if point.phases_s_per_step]
    if timed:
        caption = "Phases of a step: mean over steps, ranks and runs; other: in no named phase."
        text = f"Time of each phase at {words.listed([words.size(experiment, p) for p in timed])}."
        text = f"{text} The numbers are in the table of phases."
        yield Drawing("phases", "phases", caption, text, _finished(_phases(experiment, timed)))


def _over_size(
    experiment: ExperimentSummary, points: Sequence[PointSummary], quantity: _Quantity
) -> alt.LayerChart:
    by_nodes = words.same_width(experiment)
    rows = [_row(point, points[0], quantity, by_nodes) for point in points]
    singles = [
        {key: row[key] for key in ("size", "series")} | {"mean": value}
        for point, row in zip(points, rows, strict=True)
        for value in (point.runs_samples_per_s if quantity.title.startswith("samples") else ())
    ]
    sizes = sorted({row["size"] for row in rows})
    x = alt.X("size:Q").title("nodes" if by_nodes else "ranks")
    x = x.axis(values=sizes, format="d", grid=False, labelOverlap="greedy").scale(
        domain=[0, 1.06 * sizes[-1]]
    )
    y = alt.Y("mean:Q").title(quantity.title).axis(format=quantity.axis_format, tickCount=6)
    y = y.scale(domain=[0, _top(rows)])
    colour: Any = alt.value(_BLUE)
    if not by_nodes:
        colour = (
            alt.Color("series:N")
            .scale(range=[*_SERIES])
            .legend(alt.Legend(orient="bottom", title="ranks per node", symbolOpacity=1))
        )
    data = _chart(rows).encode(x=x, y=y)
    runs = _chart(singles).encode(x=x, y=y)
    return alt.LayerChart(
        layer=[
            data.mark_line(color=_GREY, strokeDash=[5, 4], clip=True).encode(y=alt.Y("ideal:Q")),
            data.mark_line(strokeWidth=1.5, opacity=0.5).encode(color=colour),
            data.transform_filter("isValid(datum.low)")
            .mark_rule(strokeWidth=2, clip=True)
            .encode(y=alt.Y("low:Q"), y2="high:Q", color=colour),
            runs.mark_point(size=40, filled=False, strokeWidth=1, opacity=0.7).encode(color=colour),
            data.mark_point(size=55, filled=True, opacity=1).encode(color=colour),
        ]
    )


def _row(
    point: PointSummary, base: PointSummary, quantity: _Quantity, by_nodes: bool
) -> dict[str, Any]:
    estimate, growth = quantity.of(point), point.ranks / base.ranks
    return {
        "size": point.nodes if by_nodes else point.ranks,
        "series": str(point.ranks_per_node),
        "mean": estimate.mean,
        "low": None if estimate.low is None else max(0.0, estimate.low),
        "high": estimate.high,
        "ideal": quantity.of(base).mean * (growth if quantity.grows else 1),
    }


def _top(rows: Sequence[dict[str, Any]]) -> float:
    """Where the axis ends: a far ideal or a wide interval may leave the chart, the dots may not."""
    mean = max(float(row["mean"]) for row in rows)
    highest = max(float(row[key] or 0) for row in rows for key in ("mean", "high", "ideal"))
    return 1.08 * min(highest, 2 * mean)


def _phases(experiment: ExperimentSummary, points: Sequence[PointSummary]) -> alt.Chart:
    names = words.phase_names(experiment)
    colours = dict(zip((*PHASES, OTHER), _PHASES, strict=True))
    by_nodes = words.same_width(experiment)
    rows = [
        {
            "size": str(point.nodes) if by_nodes else f"{point.nodes} × {point.ranks_per_node}",
            "phase": phase,
            "place": names.index(phase),
            "milliseconds": 1000 * seconds,
        }
        for point in points
        for phase, seconds in point.phases_s_per_step.items()
    ]
    legend = alt.Legend(orient="bottom", columns=4, title=None)
    scale = alt.Scale(domain=names, range=[colours[name] for name in names])
    x = alt.X("size:O").title("nodes" if by_nodes else "nodes × ranks per node")
    bars: alt.Chart = _chart(rows).mark_bar(size=min(44, 260 // len(points)))
    return bars.encode(
        x=x.sort(None).axis(labelAngle=0),
        y=alt.Y("milliseconds:Q").title("milliseconds per step"),
        color=alt.Color("phase:N").scale(scale).legend(legend),
        order=alt.Order("place:Q"),
    )


def _chart(rows: list[dict[str, Any]]) -> alt.Chart:
    return alt.Chart(alt.InlineData(values=rows))


def _finished(chart: alt.LayerChart | alt.Chart) -> dict[str, Any]:
    fit = alt.AutoSizeParams(type="fit", contains="padding")
    chart = chart.properties(width=_WIDTH, height=_HEIGHT, background="transparent", autosize=fit)
    chart = chart.configure(font=_FONT).configure_view(stroke=None)
    chart = chart.configure_axis(
        labelFontSize=12, titleFontSize=12, titleFontWeight="normal", titlePadding=12
    )
    chart = chart.configure_legend(labelFontSize=12, titleFontSize=12, titleFontWeight="normal")
    spec: dict[str, Any] = chart.to_dict()
    return spec


def draw(spec: dict[str, Any]) -> str:
    """A chart as SVG. No chart may fetch anything: the data is in it."""
    return vl_convert.vegalite_to_svg(spec, vl_version=_vega_lite(), allowed_base_urls=[])


def draw_pdf(spec: dict[str, Any]) -> bytes:
    """A chart as PDF."""
    return vl_convert.vegalite_to_pdf(spec, vl_version=_vega_lite(), allowed_base_urls=[])


def _svg(spec: dict[str, Any], prefix: str) -> Markup:
    return Markup(_with_own_ids(draw(spec), prefix))


def _vega_lite() -> str:
    """The version that Altair writes, as vl-convert names it: `6.4` of `v6.4.1`."""
    return ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])


def _with_own_ids(svg: str, prefix: str) -> str:
    """Name the clip paths of a figure by itself: vl-convert counts them through the process."""
    for place, found in enumerate(dict.fromkeys(re.findall(r' id="([^"]+)"', svg))):
        svg = re.sub(
            rf'( id="|url\(#|href="#){re.escape(found)}([")])', rf"\g<1>{prefix}{place}\2", svg
        )
    return svg

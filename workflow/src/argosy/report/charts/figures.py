"""The charts of an experiment as Vega-Lite: the page draws them itself.

Colours are those of Okabe and Ito, told apart by readers with any colour vision. On the page, text and
axes are coloured by its style sheet, so that they follow a light or a dark page.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from argosy.report.charts import bar_charts, cost_chart, history_chart, prediction_chart
from argosy.report.charts.size_charts import QUANTITIES, size_chart
from argosy.report.prose import charts as chart_words
from argosy.report.prose import stalls as stall_words
from argosy.report.prose import timelines as timeline_words
from argosy.report.summary.models import ExperimentSummary

_WIDTH, _HEIGHT = 440, 185
_FONT = "Helvetica, Arial, sans-serif"


@dataclass(frozen=True)
class Drawing:
    """A chart that is not drawn yet: `spec` is Vega-Lite with its data; `name` fits in a file's name.

    `kind` (`scaling`, `phases`, `stalls`, `timeline`, `prediction`, `history`) is its class in the style
    sheet, and ends the id of the table that holds its numbers. `text` says the same as the chart to a
    reader who does not see it. `series` are the names that the spec's parameter `shown` may hold, with
    their colours.
    """

    name: str
    kind: str
    caption: str
    text: str
    spec: dict[str, Any]
    series: dict[str, str] = field(default_factory=dict)


def first_pictures(experiment: ExperimentSummary) -> list[Drawing]:
    """Return the throughput, and where a step's time goes; without phases the efficiency."""
    found = {one.name: one for one in drawings(experiment)}
    names = ("throughput", "phases" if "phases" in found else "efficiency")
    return [found[name] for name in names if name in found]


def further_pictures(experiment: ExperimentSummary, currency: str | None) -> list[Drawing]:
    """Return all other drawings of an experiment; prices are in `currency`."""
    first = {one.name for one in first_pictures(experiment)}
    return [one for one in drawings(experiment, currency) if one.name not in first]


def drawings(experiment: ExperimentSummary, currency: str | None = None) -> Iterator[Drawing]:
    """Yield what is drawn of an experiment; prices are in `currency`."""
    measured = [point for point in experiment.points if point.throughput_samples_per_s]
    # Of one size, speed-up and efficiency are 1 by definition.
    quantities = QUANTITIES if len(measured) > 1 else QUANTITIES[: len(measured)]
    for quantity in quantities:
        drawn = size_chart(experiment, measured, quantity)
        text = chart_words.of_sizes(experiment, measured, quantity, drawn)
        yield Drawing(
            quantity.name,
            "scaling",
            drawn.caption,
            text,
            finished(drawn.spec),
            drawn.series,
        )
    timed = [point for point in experiment.points if point.phases_s_per_step]
    if timed:
        chart = bar_charts.phase_chart(experiment, timed)
        text = chart_words.of_parts(experiment, "in each phase", _told(chart, "at", "phase"))
        spec = finished(chart)
        colours = bar_charts.phase_colours(experiment)
        yield Drawing("phases", "phases", bar_charts.PHASES_CAPTION, text, spec, colours)
    if stall_words.part_names(experiment):
        chart = bar_charts.stall_chart(experiment)
        text = chart_words.of_parts(experiment, "by what it waits for", _told(chart))
        spec = finished(chart)
        colours = bar_charts.stall_colours(experiment)
        yield Drawing("stalls", "stalls", bar_charts.STALLS_CAPTION, text, spec, colours)
    if timeline_words.part_names(experiment):
        chart = bar_charts.timeline_chart(experiment)
        text = chart_words.of_parts(experiment, "in parts of Horovod's work", _told(chart))
        spec = finished(chart)
        colours = bar_charts.timeline_colours(experiment)
        yield Drawing("timeline", "timeline", bar_charts.TIMELINES_CAPTION, text, spec, colours)
    if prediction := experiment.prediction:
        spec = finished(prediction_chart.prediction_chart(prediction))
        text, caption = prediction_chart.text(prediction), prediction_chart.CAPTION
        colours = dict(prediction_chart.COLOURS)
        yield Drawing("prediction", "prediction", caption, text, spec, colours)
    if currency and len(cost_chart.priced(experiment)) > 1:
        spec = finished(cost_chart.cost_chart(experiment, currency))
        text = cost_chart.text(experiment, currency)
        yield Drawing("costs", "scaling", cost_chart.CAPTION, text, spec)
    history = experiment.history
    if history and len(history_chart.compared(history)) > 1:
        spec = finished(history_chart.history_chart(experiment, history))
        text, colours = (
            history_chart.text(experiment, history),
            history_chart.colours(experiment, history),
        )
        yield Drawing("history", "history", history_chart.CAPTION, text, spec, colours)


def _told(
    chart: dict[str, Any], size: str = "size", part: str = "part"
) -> Iterator[tuple[Any, ...]]:
    """Yield the bars of a chart: size, part and milliseconds of each."""
    for row in chart["data"]["values"]:
        yield row[size], row[part], row["milliseconds"]


def finished(chart: dict[str, Any]) -> dict[str, Any]:
    """Return a chart with the size and the look that all have."""
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
            # All of it here: the page switches it off and has a legend of its own, made of buttons.
            "legend": letters
            | {"orient": "bottom", "columns": 4, "title": None, "symbolOpacity": 1},
        },
    }

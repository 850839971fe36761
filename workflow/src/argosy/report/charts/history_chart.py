"""The chart of an experiment's history in Vega-Lite: throughput over the date, a line for each size.

Each size's throughput is over that in the present report, so that a change of a few per cent is seen.
"""

from collections.abc import Iterator
from itertools import cycle
from typing import Any

from argosy.report.charts.size_charts import COLOURS
from argosy.report.numbers import interval, moment, number
from argosy.report.prose import size_names
from argosy.report.prose.setups import shown
from argosy.report.statistics.estimates import scaled
from argosy.report.summary.models import ExperimentSummary, History, HistoryEntry, HistoryPoint

CAPTION = "Throughput of earlier reports over this one's (100 %), 95 % intervals."


def compared(history: History) -> list[HistoryEntry]:
    """Return the reports that this one is held against, and itself as the last."""
    return [entry for entry in history.entries if entry.not_compared is None]


def colours(experiment: ExperimentSummary, history: History) -> dict[str, str]:
    """Return the colours of the present sizes, smallest first."""
    names = (size_names.size(experiment, point) for point in history.entries[-1].points)
    return dict(zip(names, cycle(COLOURS), strict=False))


def history_chart(experiment: ExperimentSummary, history: History) -> dict[str, Any]:
    """Return throughput over the date of each report's first run."""
    series = colours(experiment, history)
    return {
        "params": [{"name": "shown", "value": [*series]}],
        "data": {"values": [*_rows(experiment, history)]},
        "transform": [{"filter": "indexof(shown, datum.series) >= 0"}],
        "encoding": {
            "x": {
                "field": "ms",
                "type": "temporal",
                "title": "date (UTC)",
                "scale": {"type": "utc"},
                "axis": {"grid": False, "labelOverlap": "greedy", "tickCount": 6},
            },
            "color": {
                "field": "series",
                "type": "nominal",
                "scale": {"domain": [*series], "range": [*series.values()]},
            },
        },
        "layer": [
            {"mark": {"type": "line", "strokeWidth": 1.5, "opacity": 0.5}, "encoding": _y("y")},
            {
                "transform": [{"filter": "isValid(datum.low)"}],
                "mark": {"type": "rule", "strokeWidth": 2},
                "encoding": _y("low") | {"y2": {"field": "high"}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 55, "opacity": 1},
                "encoding": _y("y") | {"tooltip": _TOLD},
            },
        ],
    }


def text(experiment: ExperimentSummary, history: History) -> str:
    """Return what the chart says, for a reader who does not see it."""
    said = "; ".join(
        f"{row['date']} {row['series']} {row['said']}" for row in _rows(experiment, history)
    )
    return f"Line chart of the samples per second of {experiment.experiment} over time: {said}."


_TOLD = [
    {"field": field, "type": "nominal", "title": title}
    for field, title in (
        ("series", "size"),
        ("date", "first run"),
        ("said", "samples per second"),
        ("interval", "95 % interval"),
        ("n", "runs"),
        ("commit", "commit"),
        ("image", "image"),
    )
]


def _y(field: str) -> dict[str, Any]:
    return {
        "y": {
            "field": field,
            "type": "quantitative",
            "title": "over this report",
            "axis": {"format": ".0%", "tickCount": 6, "labelOverlap": "greedy"},
            "scale": {"zero": False},
        }
    }


def _rows(experiment: ExperimentSummary, history: History) -> Iterator[dict[str, Any]]:
    entries = compared(history)
    present = {_size(one): one.throughput_samples_per_s.mean for one in entries[-1].points}
    for entry in entries:
        for point in entry.points:
            if _size(point) in present:
                over = scaled(point.throughput_samples_per_s, 1 / present[_size(point)])
                yield {
                    "ms": 1000 * (entry.started_unix_s or 0.0),
                    "series": size_names.size(experiment, point),
                    "y": over.mean,
                    "low": over.low,
                    "high": over.high,
                    "date": moment(entry.started_unix_s),
                    "said": number(point.throughput_samples_per_s.mean),
                    "interval": interval(point.throughput_samples_per_s),
                    "n": over.n,
                    "commit": (entry.commit or "not noted")[:8],
                    "image": shown(entry.image or "none"),
                }


def _size(point: HistoryPoint) -> tuple[int, int]:
    return point.nodes, point.ranks_per_node

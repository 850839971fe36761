"""Sentences and chart of an experiment's history: slower or faster sizes, and other differences."""

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from typing import Any

from argosy.report import sizes as size_names
from argosy.report.colours import SERIES
from argosy.report.drawing import Drawing, Frame, lines_drawing, tooltip
from argosy.report.numbers import interval, moment, number, percent, percent_interval
from argosy.report.statistics.estimates import Estimate, less_one, scaled
from argosy.report.summary.models import ExperimentSummary
from argosy.report.summary.parts import Change, History, HistoryEntry
from argosy.report.topics.setups import shown

_DIGITS = 8
_COMMIT = 40


def slower(experiment: ExperimentSummary) -> list[str]:
    """Return a sentence if any size is significantly slower than before."""
    return [*_sentence(experiment, "Slower", is_slower)]


def sentences(experiment: ExperimentSummary) -> list[str]:
    """Return sentences on significant changes and other differences, or on their absence."""
    history = experiment.history
    if history is None:
        return []
    said = [*slower(experiment), *_sentence(experiment, "Faster", is_faster)]
    told = [one for one in history.changes if one.ratio.low is not None]
    if told and not said:
        within = "; ".join(
            f"{size_names.size(experiment, one)}: {percent(one.ratio.mean - 1, 1)}, interval "
            f"{percent_interval(less_one(one.ratio), 1)}"
            for one in told
        )
        said.append(f"No significant change since {_since(history, told)} ({within}).")
    if not history.changes:
        said.append("No earlier report is compared with this one: see the table.")
    elif not told:
        said.append(
            "Single runs, runs that agree to the last digit, and sizes that lost runs cannot show a "
            "change."
        )
    return said


def is_slower(change: Change) -> bool:
    """Check that a size is significantly slower than before."""
    return change.ratio.high is not None and change.ratio.high < 1


def is_faster(change: Change) -> bool:
    """Check that a size is significantly faster than before."""
    return change.ratio.low is not None and change.ratio.low > 1


def _sentence(
    experiment: ExperimentSummary, word: str, holds: Callable[[Change], bool]
) -> Iterator[str]:
    history = experiment.history
    changed = [one for one in history.changes if holds(one)] if history else []
    if not history or not changed:
        return
    sizes = size_names.listed(
        [
            f"{size_names.size(experiment, one)} by {_by_how_much(one.ratio, word)}"
            for one in changed
        ]
    )
    yield f"{word} than in {_since(history, changed)}: {sizes}. {_differences(history, changed)}"


def _by_how_much(ratio: Estimate, word: str) -> str:
    growth = less_one(ratio)
    if word == "Slower":
        growth = Estimate(ratio.n, -growth.mean, -(growth.high or 0.0), -(growth.low or 0.0))
    return f"{percent(growth.mean, 1)} ({percent_interval(growth, 1)})"


def _since(history: History, changes: Sequence[Change]) -> str:
    most = max(one.reports for one in changes)
    if most > 1:
        return f"{most} earlier reports"
    last = [entry for entry in history.entries[:-1] if entry.not_compared is None][-1]
    return f"the report of {moment(last.started_unix_s).partition(' ')[0]}"


def _differences(history: History, changes: Sequence[Change]) -> str:
    listed = "; ".join(
        f"{one.what} {_value(one.one)}, now {_value(one.other)}" for one in history.differences
    )
    since = "since the last of them" if max(one.reports for one in changes) > 1 else "since then"
    day = " Two days can differ as much." if all(one.reports == 1 for one in changes) else ""
    if not listed:
        return f"Argosy recorded no other difference {since}.{day}"
    return f"Differences {since}: {listed}.{day}"


def _value(text: str) -> str:
    is_commit = len(text) == _COMMIT and text.isalnum()
    return text[:_DIGITS] if is_commit else shown(text)


_CAPTION = "Throughput of earlier reports relative to this report (100 %), 95 % intervals."


def drawings(experiment: ExperimentSummary) -> Iterator[Drawing]:
    """Yield the chart of an experiment's history if another report is compared."""
    history = experiment.history
    entries = [entry for entry in history.entries if entry.not_compared is None] if history else []
    if len(entries) < 2:
        return
    names = (size_names.size(experiment, point) for point in entries[-1].points)
    series = dict(zip(names, cycle(SERIES), strict=False))
    rows = [*_rows(experiment, entries)]
    said = "; ".join(f"{row['date']} {row['series']} {row['said']}" for row in rows)
    text = f"Line chart of the {experiment.unit} per second of {experiment.experiment} over time: {said}."
    told = tooltip(
        series="size",
        date="first run",
        said=f"{experiment.unit} per second",
        interval="95 % interval",
        n="runs",
        commit="commit",
        image="image",
    )
    frame = Frame(_DATES, "over this report", ".0%", {"zero": False}, series, told)
    yield lines_drawing("history", _CAPTION, text, frame, rows, kind="history")


_DATES = {
    "field": "ms",
    "type": "temporal",
    "title": "date (UTC)",
    "scale": {"type": "utc"},
    "axis": {"grid": False, "labelOverlap": "greedy", "tickCount": 6},
}
"""The axis of the date of each report's first run."""


def _rows(
    experiment: ExperimentSummary, entries: Sequence[HistoryEntry]
) -> Iterator[dict[str, Any]]:
    present = {one.point: one.throughput_samples_per_s.mean for one in entries[-1].points}
    for entry in entries:
        for point in entry.points:
            if point.point in present:
                over = scaled(point.throughput_samples_per_s, 1 / present[point.point])
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
                    "commit": (entry.commit or "unknown")[:8],
                    "image": shown(entry.image or "none"),
                }

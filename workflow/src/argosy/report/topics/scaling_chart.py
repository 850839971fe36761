"""Charts of throughput, speed-up and efficiency over the size."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from argosy.report import numbers
from argosy.report import sizes as size_names
from argosy.report.colours import BLUE, DARK, GREY, SERIES
from argosy.report.drawing import (
    IDEAL,
    SINGLE,
    Drawing,
    are_powers_of_two,
    finished,
    layers,
    over_sizes,
)
from argosy.report.numbers import count
from argosy.report.statistics.estimates import Estimate
from argosy.report.summary.models import ExperimentSummary, PointSummary
from argosy.report.topics.laws.says import NAMES, best, curve_sizes, throughput

_MEAN = "mean of the runs"

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Quantity:
    """A quantity for charts over the size: an estimate `of` a point, or None.

    `is_relative`: a single size is 1 by definition and gets no chart.
    """

    name: str
    of: Callable[[PointSummary], Estimate | None]
    title: str
    caption: str
    axis_format: str = ",~r"
    grows: bool = True
    has_runs: bool = False
    is_relative: bool = True

    def at(self, point: PointSummary) -> Estimate:
        """Return the estimate of a point, which must have one."""
        estimate = self.of(point)
        assert estimate
        return estimate

    def say(self, value: float) -> str:
        return numbers.percent(value) if "%" in self.axis_format else numbers.number(value)

    def say_interval(self, estimate: Estimate) -> str:
        in_percent = "%" in self.axis_format
        return numbers.percent_interval(estimate) if in_percent else numbers.interval(estimate)


QUANTITIES = (
    Quantity(
        name="throughput",
        of=lambda point: point.throughput_samples_per_s,
        title="{unit} per second",
        caption="Throughput, 95 % intervals; dashed: ideal.",
        has_runs=True,
        is_relative=False,
    ),
    Quantity(
        name="speed-up",
        of=lambda point: point.speed_up,
        title="speed-up",
        caption="Speed-up, 95 % intervals; dashed: ideal.",
    ),
    Quantity(
        name="efficiency",
        of=lambda point: point.efficiency,
        title="efficiency",
        caption="Efficiency, 95 % intervals; dashed: ideal.",
        axis_format=".0%",
        grows=False,
    ),
)


def drawings(experiment: ExperimentSummary) -> Iterator[Drawing]:
    """Yield a chart of each quantity with values."""
    measured = [point for point in experiment.points if point.throughput_samples_per_s]
    for quantity in QUANTITIES:
        points = [point for point in measured if quantity.of(point)]
        if len(points) > quantity.is_relative:
            yield _drawing(experiment, points, quantity)


def _drawing(
    experiment: ExperimentSummary, points: Sequence[PointSummary], quantity: Quantity
) -> Drawing:
    """Return a chart of measured points, the base first."""
    by_nodes = size_names.same_width(experiment)
    means = [_mean(experiment, point, points[0], quantity) for point in points]
    runs = list(_runs(experiment, points)) if quantity.has_runs else []
    law = best(experiment.laws) if quantity.has_runs and len(points) > 1 else None
    fitted = f"fit: {NAMES[law.law]}" if law else ""
    curve = _curve(experiment, points, fitted) if law else []
    widths = dict(zip(dict.fromkeys(row["series"] for row in means), cycle(SERIES), strict=False))
    series = (
        widths | ({SINGLE: BLUE} if runs else {}) | {IDEAL: GREY} | ({fitted: DARK} if law else {})
    )
    sizes = sorted({row["size"] for row in means})
    is_log = quantity.grows and are_powers_of_two(sizes)
    bottom, top = _ends(means, runs, curve) if is_log else (0.0, _top(means, runs, curve))
    frame = over_sizes(
        unit="nodes" if by_nodes else "ranks",
        title=quantity.title.format(unit=experiment.unit),
        axis_format=quantity.axis_format,
        sizes=sizes,
        top=top,
        series=series,
        bottom=bottom,
    )
    spec = {
        "params": [{"name": "shown", "value": [*series]}],
        "datasets": {"means": means, "runs": runs, "curve": curve},
        "layer": list(layers(frame, bool(runs), bool(curve))),
    }
    caption = f"{quantity.caption[:-1]}; {fitted}." if law else quantity.caption
    text = _text(experiment, points, quantity, fitted)
    return Drawing(quantity.name, "scaling", caption, text, finished(spec), series)


def _mean(
    experiment: ExperimentSummary, point: PointSummary, base: PointSummary, quantity: Quantity
) -> dict[str, Any]:
    estimate, growth = quantity.at(point), point.ranks / base.ranks
    by_nodes = size_names.same_width(experiment)
    return {
        "size": point.nodes if by_nodes else point.ranks,
        "series": _series(experiment, point),
        "y": estimate.mean,
        "low": None if estimate.low is None else max(0.0, estimate.low),
        "high": estimate.high,
        "ideal": quantity.at(base).mean * (growth if quantity.grows else 1),
        "at": size_names.size(experiment, point),
        "said": quantity.say(estimate.mean),
        "interval": quantity.say_interval(estimate),
        "n": estimate.n,
    }


def _series(experiment: ExperimentSummary, point: PointSummary) -> str:
    if size_names.is_nested(experiment.points):
        return _MEAN
    return f"{count(point.ranks_per_node, 'rank')} per node"


def _runs(
    experiment: ExperimentSummary, points: Sequence[PointSummary]
) -> Iterator[dict[str, Any]]:
    by_nodes = size_names.same_width(experiment)
    for point in points:
        for rate in point.runs_samples_per_s:
            yield {
                "size": point.nodes if by_nodes else point.ranks,
                "series": _series(experiment, point),
                "y": rate,
                "said": numbers.number(rate),
            }


def _curve(experiment: ExperimentSummary, points: Sequence[PointSummary], fitted: str) -> Rows:
    law = best(experiment.laws)
    assert law is not None
    ranks_of_a_size = points[0].ranks_per_node if size_names.same_width(experiment) else 1
    ranks = [point.ranks for point in points]
    return [
        {
            "size": float(f"{each / ranks_of_a_size:.6g}"),
            "y": float(f"{throughput(law, each):.6g}"),
            "series": fitted,
        }
        for each in curve_sizes(min(ranks), max(ranks))
    ]


def _top(means: Rows, runs: Rows, curve: Rows) -> float:
    """Return the end of the axis; a distant ideal or a wide interval may leave the chart, runs may not."""
    mean = max(float(row["y"]) for row in means)
    highest = max(float(row[key] or 0) for row in means for key in ("y", "high", "ideal"))
    highest = max(highest, *(float(row["y"]) for row in curve), 0.0)
    return 1.08 * max(min(highest, 2 * mean), *(float(row["y"]) for row in (*means, *runs)))


def _ends(means: Rows, runs: Rows, curve: Rows) -> tuple[float, float]:
    """Return the ends of a logarithmic axis for all positive values."""
    drawn = [float(row[key]) for row in means for key in ("y", "ideal", "low", "high") if row[key]]
    drawn += [float(row["y"]) for row in (*runs, *curve)]
    return min(drawn) / 1.15, 1.15 * max(drawn)


def _text(
    experiment: ExperimentSummary, points: Sequence[PointSummary], quantity: Quantity, fitted: str
) -> str:
    """Return the alternative text of a chart: each dot with its interval, and the lines."""
    dots = [_dot(experiment, point, quantity) for point in points]
    curve = [f"a curve for the {fitted}"] if fitted else []
    beside = size_names.listed(["a dashed line for the ideal", *curve])
    of = f"the {quantity.title.format(unit=experiment.unit)} of {experiment.experiment}"
    return f"Line chart of {of}: {'; '.join(dots)}; and {beside}."


def _dot(experiment: ExperimentSummary, point: PointSummary, quantity: Quantity) -> str:
    estimate = quantity.at(point)
    said = f"{size_names.size(experiment, point)} {quantity.say(estimate.mean)}"
    return said if estimate.low is None else f"{said} ({quantity.say_interval(estimate)})"

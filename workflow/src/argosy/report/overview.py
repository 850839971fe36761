"""Charts of several experiments, or of one at several sites."""

import math
from itertools import cycle
from typing import Any

from argosy.report import sizes as size_names
from argosy.report.colours import SERIES
from argosy.report.drawing import Drawing, lines_drawing, over_sizes
from argosy.report.numbers import count, interval, number, percent, percent_interval
from argosy.report.outputs.comparison import ComparedExperiment, ComparedPoint
from argosy.report.statistics.estimates import Estimate
from argosy.report.summary.models import ExperimentSummary, Summary


def overview_drawing(summary: Summary) -> Drawing | None:
    """Return a chart of the experiments with several sizes; None unless there are two to six."""
    drawn = [
        each
        for each in summary.experiments
        if sum(point.efficiency is not None for point in each.points) > 1
    ]
    if not 1 < len(drawn) <= len(SERIES):
        return None
    series = {
        f"{each.experiment}, {each.scaling}": colour
        for each, colour in zip(drawn, SERIES, strict=False)
    }
    means = [
        _row(
            point.ranks,
            name,
            point.efficiency,
            at=f"{each.experiment}, {size_names.size(each, point)}",
            said=percent(point.efficiency.mean),
            interval=percent_interval(point.efficiency),
        )
        for each, name in zip(drawn, series, strict=True)
        for point in each.points
        if point.efficiency
    ]
    frame = over_sizes(
        unit="ranks",
        title="efficiency",
        axis_format=".0%",
        sizes=sorted({float(row["size"]) for row in means}),
        top=1.08 * max(1.0, *(row["high"] or row["y"] for row in means)),
        series=series,
    )
    said = "; ".join(f"{row['at']} {row['said']}" for row in means)
    text = f"Line chart of the efficiency of all experiments: {said}."
    caption = "Efficiency of all experiments, 95 % intervals."
    return lines_drawing("efficiencies", caption, text, frame, means)


def _row(size: int, series: str, estimate: Estimate, **texts: str) -> dict[str, Any]:
    return {
        "size": size,
        "series": series,
        "y": estimate.mean,
        "low": None if estimate.low is None else max(0.0, estimate.low),
        "high": estimate.high,
        **texts,
        "n": estimate.n,
    }


WIDTH, HEIGHT = 72, 20


def sparkline(experiment: ExperimentSummary) -> str:
    """Return the points of an SVG polyline: efficiency, from 0, over the logarithm of ranks."""
    known = [
        (math.log(one.ranks), one.efficiency.mean) for one in experiment.points if one.efficiency
    ]
    if len(known) < 2:
        return ""
    left, right = known[0][0], known[-1][0]
    highest = max(1.0, *(height for _, height in known))
    return " ".join(
        f"{2 + (WIDTH - 4) * (at - left) / ((right - left) or 1):.1f},"
        f"{HEIGHT - 2 - (HEIGHT - 4) * height / highest:.1f}"
        for at, height in known
    )


_CAPTION = "Throughput at each site, 95 % intervals."


def comparison_drawing(experiment: ComparedExperiment) -> Drawing:
    """Return a chart of throughput at each site; at least one site has a measurement."""
    by_nodes = len({each.point.ranks_per_node for each in experiment.points}) == 1
    means = [
        _row(
            each.point.nodes if by_nodes else each.point.ranks,
            each.site,
            rate,
            at=f"{each.site}, {_size(each, by_nodes)}",
            said=number(rate.mean),
            interval=interval(rate),
        )
        for each in experiment.points
        if (rate := each.point.throughput_samples_per_s)
    ]
    series = dict(zip(experiment.sites, cycle(SERIES), strict=False))
    unit = f"{experiment.units} per second"
    frame = over_sizes(
        unit="nodes" if by_nodes else "ranks",
        title=unit,
        axis_format=",~r",
        sizes=sorted({row["size"] for row in means}),
        top=1.08 * max(row["high"] or row["y"] for row in means),
        series=series,
    )
    said = "; ".join(
        f"{each.site} {_size(each, by_nodes)} {number(row['y'])}"
        for each, row in zip(experiment.points, means, strict=True)
    )
    text = f"Line chart of the {unit} of {experiment.experiment} at the sites: {said}."
    return lines_drawing("comparison", _CAPTION, text, frame, means)


def _size(each: ComparedPoint, by_nodes: bool) -> str:
    return count(each.point.nodes, "node") if by_nodes else count(each.point.ranks, "rank")

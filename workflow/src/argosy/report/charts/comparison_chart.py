"""The chart of an experiment at several sites, in Vega-Lite: throughput over the size, a line a site."""

from itertools import cycle
from typing import Any

from argosy.report.charts.figures import Drawing, finished
from argosy.report.charts.size_charts import COLOURS
from argosy.report.charts.size_layers import Frame, lines_chart
from argosy.report.comparison import ComparedExperiment, ComparedPoint
from argosy.report.numbers import count, interval, number

_CAPTION = "Throughput at each site, 95 % intervals."


def comparison_drawing(experiment: ComparedExperiment) -> Drawing:
    """Return the chart of what the sites measured, at least one of them."""
    by_nodes = len({each.point.ranks_per_node for each in experiment.points}) == 1
    means = [_row(each, by_nodes) for each in experiment.points]
    series = dict(zip(experiment.sites, cycle(COLOURS), strict=False))
    frame = Frame(
        unit="nodes" if by_nodes else "ranks",
        title="samples per second",
        axis_format=",~r",
        sizes=sorted({row["size"] for row in means}),
        top=1.08 * max(float(row["high"] or row["y"]) for row in means),
        series=series,
    )
    said = "; ".join(
        f"{each.site} {_size(each, by_nodes)} {number(row['y'])}"
        for each, row in zip(experiment.points, means, strict=True)
    )
    text = f"Line chart of the samples per second of {experiment.experiment} at the sites: {said}."
    return Drawing(
        "comparison", "scaling", _CAPTION, text, finished(lines_chart(frame, means)), series
    )


def _row(each: ComparedPoint, by_nodes: bool) -> dict[str, Any]:
    estimate = each.point.throughput_samples_per_s
    assert estimate
    return {
        "size": each.point.nodes if by_nodes else each.point.ranks,
        "series": each.site,
        "y": estimate.mean,
        "low": None if estimate.low is None else max(0.0, estimate.low),
        "high": estimate.high,
        "at": f"{each.site}, {_size(each, by_nodes)}",
        "said": number(estimate.mean),
        "interval": interval(estimate),
        "n": estimate.n,
    }


def _size(each: ComparedPoint, by_nodes: bool) -> str:
    return count(each.point.nodes, "node") if by_nodes else count(each.point.ranks, "rank")

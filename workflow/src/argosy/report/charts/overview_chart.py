"""The efficiencies of several experiments in one chart, weak and strong scaling together."""

from argosy.report.charts.figures import Drawing, finished
from argosy.report.charts.size_charts import COLOURS
from argosy.report.charts.size_layers import Frame, lines_chart
from argosy.report.numbers import percent, percent_interval
from argosy.report.prose import size_names
from argosy.report.summary.models import ExperimentSummary, PointSummary, Summary


def overview_drawing(summary: Summary) -> Drawing | None:
    """Return the chart of experiments with several sizes; None unless there are two to six of them."""
    drawn = [each for each in summary.experiments if len(_measured(each)) > 1]
    if not 1 < len(drawn) <= len(COLOURS):
        return None
    series = {
        f"{each.experiment}, {each.scaling}": colour
        for each, colour in zip(drawn, COLOURS, strict=False)
    }
    means = [
        _row(each, point, name)
        for each, name in zip(drawn, series, strict=True)
        for point in _measured(each)
    ]
    frame = Frame(
        unit="ranks",
        title="efficiency",
        axis_format=".0%",
        sizes=sorted({float(str(row["size"])) for row in means}),
        top=1.08 * max(1.0, *(float(str(row["high"] or row["y"])) for row in means)),
        series=series,
    )
    said = "; ".join(f"{row['at']} {row['said']}" for row in means)
    text = f"Line chart of the efficiency of all experiments: {said}."
    caption = "Efficiency of all experiments, 95 % intervals."
    return Drawing(
        "efficiencies", "scaling", caption, text, finished(lines_chart(frame, means)), series
    )


def _measured(experiment: ExperimentSummary) -> list[PointSummary]:
    return [point for point in experiment.points if point.efficiency]


def _row(experiment: ExperimentSummary, point: PointSummary, name: str) -> dict[str, object]:
    efficiency = point.efficiency
    assert efficiency
    return {
        "size": point.ranks,
        "series": name,
        "y": efficiency.mean,
        "low": efficiency.low,
        "high": efficiency.high,
        "at": f"{experiment.experiment}, {size_names.size(experiment, point)}",
        "said": percent(efficiency.mean),
        "interval": percent_interval(efficiency),
        "n": efficiency.n,
    }

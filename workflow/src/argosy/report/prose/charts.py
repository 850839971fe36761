"""What charts show, in words, for a reader who does not see them."""

from collections.abc import Iterable, Sequence
from typing import Any

from argosy.report.charts.size_charts import Quantity, SizeChart
from argosy.report.numbers import number
from argosy.report.prose import size_names
from argosy.report.summary.models import ExperimentSummary, PointSummary


def of_sizes(
    experiment: ExperimentSummary,
    points: Sequence[PointSummary],
    quantity: Quantity,
    chart: SizeChart,
) -> str:
    """Return a chart over the size: each dot with its interval, and what the lines are."""
    dots = [_dot(experiment, point, quantity) for point in points]
    lines = [name for name in chart.series if name.startswith("fit")]
    beside = size_names.listed(
        ["a dashed line for the ideal", *(f"a curve for the {one}" for one in lines)]
    )
    of = f"the {quantity.title} of {experiment.experiment}"
    return f"Line chart of {of}: {'; '.join(dots)}; and {beside}."


def of_parts(experiment: ExperimentSummary, what: str, rows: Iterable[Sequence[Any]]) -> str:
    """Return bars of a step's milliseconds; `rows` are a size, the name of a part, and its milliseconds."""
    by_size: dict[str, list[str]] = {}
    for size, part, milliseconds in rows:
        by_size.setdefault(size, []).append(f"{part} {number(milliseconds)}")
    said = "; ".join(f"{size} {', '.join(parts)}" for size, parts in by_size.items())
    return f"Bar chart of the milliseconds per step of {experiment.experiment} {what}: {said}."


def _dot(experiment: ExperimentSummary, point: PointSummary, quantity: Quantity) -> str:
    estimate = quantity.of(point)
    said = f"{size_names.size(experiment, point)} {quantity.say(estimate.mean)}"
    return said if estimate.low is None else f"{said} ({quantity.say_interval(estimate)})"

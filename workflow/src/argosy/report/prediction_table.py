"""A prediction in the terminal, as a table."""

from rich.table import Table

from argosy.report import numbers
from argosy.report.summary.prediction import PredictedPoint, PredictionSummary
from argosy.report.terminal import number_table

_ALWAYS = (
    *("nodes", "samples/s", "95 %\ninterval", "measured", "error", "efficiency", "hours"),
    "node\nhours",
)


def table(experiment: str, found: PredictionSummary, currency: str | None) -> Table:
    """Return a row for each number of nodes; columns of energy and price only where they are known."""
    how = "predicted" if found.method == "network" else "extrapolated"
    title = f"{experiment}, {how} for {numbers.number(found.samples, 6)} samples"
    more = [
        (name, attribute)
        for name, attribute in (
            ("kWh", "energy_kwh"),
            (currency or "price", "price"),
            ("kg CO₂", "carbon_kg"),
        )
        if any(getattr(point, attribute) for point in found.points)
    ]
    shown = number_table(title, (*_ALWAYS, *(name for name, _ in more)))
    for point in found.points:
        known = (getattr(point, attribute) for _, attribute in more)
        shown.add_row(*_cells(point), *(numbers.number(one.mean) for one in known if one))
    return shown


def _cells(point: PredictedPoint) -> tuple[str, ...]:
    return (
        str(point.nodes),
        numbers.number(point.samples_per_s.mean),
        numbers.interval(point.samples_per_s),
        numbers.number(point.measured_samples_per_s),
        numbers.percent(point.error, 1),
        numbers.percent(point.efficiency.mean),
        numbers.number(point.hours.mean),
        numbers.number(point.node_hours.mean),
    )

"""The table of a comparison: an experiment's sizes at each site."""

from collections.abc import Mapping, Sequence

from argosy.report.numbers import NONE, number, percent
from argosy.report.outputs.comparison import ComparedExperiment, ComparedPoint
from argosy.report.summary.models import PointSummary
from argosy.report.summary.parts import Rates
from argosy.report.table import UNKNOWN, Cell, Column, Table, column, estimate, figure, size_columns
from argosy.report.topics import costs, queue


def comparison_table(
    experiment: ComparedExperiment, reference: str, rates: Mapping[str, Rates]
) -> Table:
    """Return the table of an experiment; `rates` give each site's currency."""
    compared, units = experiment.points, experiment.units
    points = [each.point for each in compared]
    has_energy = any(one.costs and one.costs.energy_kwh for one in points)

    def rate(each: ComparedPoint) -> Cell:
        unit = "" if each.unit == units else f" {each.unit}/s"
        return estimate(each.point.throughput_samples_per_s, unit=unit)

    return Table(
        [
            *size_columns(points),
            column(compared, "Site", lambda each: each.site),
            column(points, "Runs", _runs),
            column(compared, f"{units.capitalize()}/s", rate),
            column(compared, "Ratio", lambda each: estimate(each.ratio)),
            column(compared, "Detectable difference", _detectable),
            _per(compared, "Per node", "nodes"),
            *_where_known(_per(compared, "Per core", "cpus_per_rank")),
            *_where_known(_per(compared, "Per GPU", "gpus_per_rank")),
            column(points, "Efficiency", lambda one: estimate(one.efficiency, "percent")),
            column(points, "Step, ms", _step),
            *queue.columns(points),
            *queue.columns_to_result(points),
            costs.cost_column(points, "Node-hours", lambda cost: cost.node_hours),
            *([costs.energy_column(points)] if has_energy else []),
            *_where_known(column(compared, "Price", lambda each: _price(each, rates[each.site]))),
        ],
        f"Each size at each site, with 95 % intervals; ratios are relative to {reference}, costs "
        f"are per million {units}.",
        f"{experiment.experiment} at the sites",
        "scaling",
        kind="dense",
    )


def _where_known(found: Column) -> list[Column]:
    return [found] if any(cell.text != NONE for cell in found.cells) else []


def _per(compared: Sequence[ComparedPoint], heading: str, resource: str) -> Column:
    return column(
        compared, heading, lambda each: figure(each.per(resource), number(each.per(resource)))
    )


def _runs(point: PointSummary) -> str:
    return str(point.throughput_samples_per_s.n if point.throughput_samples_per_s else 0)


def _detectable(each: ComparedPoint) -> str:
    return percent(each.detectable - 1 if each.detectable else None)


def _step(point: PointSummary) -> Cell:
    return figure(point.step_s, number(1000 * point.step_s)) if point.step_s else UNKNOWN


def _price(each: ComparedPoint, rates: Rates) -> Cell:
    price = each.point.costs.price if each.point.costs else None
    return estimate(price, unit=f" {rates.currency}")

"""Costs of a million samples (hours, energy, money, carbon), and time between steps."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from argosy.report.colours import BLUE, GREY
from argosy.report.drawing import Drawing, finished, tooltip
from argosy.report.numbers import number, percent
from argosy.report.runs.scaling import without_interval
from argosy.report.runs.study_tables import StudyTables
from argosy.report.sizes import listed, size
from argosy.report.statistics.estimates import Estimate, scaled, total_estimate
from argosy.report.summary.models import ExperimentSummary, PointSummary, Summary
from argosy.report.summary.parts import SAMPLES, CostSummary, Rates, UsageSummary
from argosy.report.table import UNKNOWN, Cell, Column, Quantity, column, estimate, known
from argosy.results.tables import Run
from argosy_common.units import J_PER_KWH

# Throughput uses the slowest rank's steps, so the time between its steps is missing. Unrecorded steps would
# count as such time, so all must be there. Shares are rounded to the resolution of clocks.
_QUERY = """
WITH of_rank AS (
    SELECT experiment, run_id, rank, seconds, is_whole,
        ended_s - began_s AS steady_s, 1 - timed_s / nullif(ended_s - began_s, 0) AS share
    FROM steady_rank
), of_run AS (
    SELECT experiment, run_id,
        arg_max(struct_pack(is_whole, steady_s, share), (of_rank.seconds, -rank)) AS slowest
    FROM of_rank GROUP BY experiment, run_id
)
SELECT experiment, run_id, round(greatest(0, slowest.share), 6) AS share,
    CASE WHEN len(continued_at) = 0 AND runs.seconds >= slowest.steady_s
        THEN runs.seconds - slowest.steady_s END AS around_s
FROM of_run JOIN runs USING (experiment, run_id)
WHERE state = 'completed' AND len(missing_ranks) = 0 AND slowest.is_whole AND slowest.share IS NOT NULL
ORDER BY experiment, run_id
"""


@dataclass(frozen=True)
class OutsideSteps:
    """Time of a run outside its steps.

    Args:
        between: Share of the steady time between steps, from 0 to 1.
        around_s: Seconds before and after the steady time: start, warm-up, end. None for a continued run,
            and for a run that is shorter than its steps, since a clock was set back.
    """

    between: float
    around_s: float | None


def between_steps(tables: StudyTables) -> Mapping[Run, OutsideSteps]:
    """Return the time outside steps of completed runs.

    The steady time is from the start of the slowest rank's first steady step to the end of its last, in the
    run's last job. Runs are omitted unless all ranks recorded steps, and the slowest rank all of them.
    """
    return {
        (row["experiment"], row["run_id"]): OutsideSteps(row["share"], row["around_s"])
        for row in tables.fetch(_QUERY)
    }


def flops_utilisation(
    nodes: int, throughput: Estimate, flops_per_sample: Estimate | None, rates: Rates
) -> Estimate | None:
    """Return the model FLOPs utilisation: operations of the model divided by the nodes' peak.

    Chowdhery et al., "PaLM", arXiv:2204.02311, appendix B. None if either is unknown.
    """
    if flops_per_sample is None or rates.peak_tflops_per_node is None:
        return None
    return scaled(throughput, flops_per_sample.mean / (nodes * rates.peak_tflops_per_node * 1e12))


def cost_summary(
    nodes: int,
    runs_samples_per_s: Sequence[float],
    usage: UsageSummary | None,
    rates: Rates,
    outside: Sequence[OutsideSteps | None] = (),
    *,
    much_lost: bool = False,
) -> CostSummary:
    """Return the mean costs of `SAMPLES` samples over runs with these throughputs.

    `outside` has the time outside steps of the same runs. With `much_lost` runs, costs have no interval.
    """
    hours = total_estimate([SAMPLES / 3600 / rate for rate in runs_samples_per_s])
    charged, around_s = _charged(nodes, runs_samples_per_s, outside)
    if much_lost:
        hours = without_interval(hours)
        charged, around_s = (one and without_interval(one) for one in (charged, around_s))
    node_hours = scaled(hours, nodes)
    price, carbon = rates.price_per_node_hour, rates.carbon_g_per_kwh
    per_sample = usage.energy_j_per_sample if usage else None
    energy = scaled(per_sample, SAMPLES / J_PER_KWH * (rates.pue or 1)) if per_sample else None
    return CostSummary(
        hours=hours,
        node_hours=node_hours,
        price=None if price is None else scaled(charged or node_hours, price),
        energy_kwh=energy,
        energy_of=usage.energy_of if usage and energy else None,
        carbon_kg=None if energy is None or carbon is None else scaled(energy, carbon / 1000),
        charged_node_hours=charged,
        around_s=around_s,
    )


def _charged(
    nodes: int, runs_samples_per_s: Sequence[float], outside: Sequence[OutsideSteps | None]
) -> tuple[Estimate | None, Estimate | None]:
    """Return charged node-hours, and seconds of a job around its steady state; None if unknown."""
    known = [one for one in outside if one and one.around_s is not None and one.between < 1]
    if not known or len(known) < len(runs_samples_per_s):
        return None, None
    around_s = [one.around_s or 0.0 for one in known]
    node_hours = [
        nodes * (SAMPLES / rate / (1 - one.between) + around) / 3600
        for rate, one, around in zip(runs_samples_per_s, known, around_s, strict=True)
    ]
    return total_estimate(node_hours), total_estimate(around_s)


def columns(points: Sequence[PointSummary], currency: str | None) -> list[Column]:
    """Return the columns of costs of a million samples, in steps and as charged."""
    known = [point.costs for point in points if point.costs]
    of = {one.energy_of for one in known if one.energy_of}
    found = [
        cost_column(points, "Hours", lambda cost: cost.hours),
        cost_column(points, "Node-hours", lambda cost: cost.node_hours),
    ]
    if any(one.charged_node_hours for one in known):
        found.append(
            cost_column(points, "Charged node-hours", lambda cost: cost.charged_node_hours)
        )
    if any(one.price for one in known):
        found.append(cost_column(points, str(currency), lambda cost: cost.price))
    return [*found, *([energy_column(points)] if of else [])]


def energy_column(points: Sequence[PointSummary]) -> Column:
    """Return the column of energy; the heading names the devices if all sizes measured the same ones."""
    of = {point.costs.energy_of for point in points if point.costs and point.costs.energy_of}

    def cell(point: PointSummary) -> Cell:
        cost = point.costs
        if cost is None or cost.energy_kwh is None:
            return Cell("not read")
        return estimate(cost.energy_kwh, unit=f" of {cost.energy_of}" if len(of) > 1 else "")

    return column(points, f"kWh of {next(iter(of))}" if len(of) == 1 else "kWh", cell)


def cost_column(
    points: Sequence[PointSummary], heading: str, of: Callable[[CostSummary], Estimate | None]
) -> Column:
    """Return the column of a cost of a million samples."""
    return column(points, heading, lambda one: estimate(of(one.costs)) if one.costs else UNKNOWN)


CAPTION = "Price over time for a million {unit}; the line joins sizes that no other beats in both."


def priced(experiment: ExperimentSummary) -> list[PointSummary]:
    """Return the sizes that have a price."""
    return [point for point in experiment.points if point.costs and point.costs.price]


def best(points: list[PointSummary]) -> list[PointSummary]:
    """Return the sizes on the Pareto front of mean time and price."""
    found: list[PointSummary] = []
    for point in sorted(points, key=lambda one: (_hours(one), _price(one))):
        if not found or _price(point) < _price(found[-1]):
            found.append(point)
    return found


def _chart(experiment: ExperimentSummary, currency: str) -> dict[str, Any]:
    """Return a chart of price over hours for a million samples, as charged if that is known."""
    points = priced(experiment)
    front = best(points)
    rows = [
        {
            "hours": _hours(point),
            "price": _price(point),
            "at": size(experiment, point),
            "hours_said": number(_hours(point)),
            "price_said": number(_price(point)),
            "best": point in front,
        }
        for point in points
    ]
    dot = {"type": "point", "filled": True, "size": 55, "opacity": 1}
    told = tooltip(at="size", hours_said="hours", price_said=currency)
    name = {"type": "text", "align": "left", "dx": 5, "dy": -10, "fontSize": 11}
    return {
        "data": {"values": rows},
        "encoding": {"x": _axis("hours", "hours"), "y": _axis("price", currency)},
        "layer": [
            {
                "transform": [{"filter": "datum.best"}],
                "mark": {"type": "line", "strokeDash": [5, 4], "color": GREY},
                "encoding": {"order": {"field": "hours"}},
            },
            {"mark": dot | {"color": BLUE}, "encoding": {"tooltip": told}},
            {"mark": name, "encoding": {"text": {"field": "at", "type": "nominal"}}},
        ],
    }


def drawings(experiment: ExperimentSummary, currency: str | None) -> Iterator[Drawing]:
    """Yield the chart of price over hours if at least two sizes have a price."""
    points = priced(experiment)
    if not currency or len(points) < 2:
        return
    unit = experiment.unit
    said = "; ".join(
        f"{size(experiment, point)} {number(_hours(point))} hours, {number(_price(point))} {currency}"
        for point in points
    )
    text = f"Chart of price over hours of {experiment.experiment} for a million {unit}: {said}."
    caption = CAPTION.format(unit=unit)
    yield Drawing("costs", "scaling", caption, text, finished(_chart(experiment, currency)))


def _hours(point: PointSummary) -> float:
    """Return the mean hours of a job of a million samples; steps only if the rest is unknown."""
    assert point.costs
    charged = point.costs.charged_node_hours
    return charged.mean / point.nodes if charged else point.costs.hours.mean


def _price(point: PointSummary) -> float:
    assert point.costs and point.costs.price
    return point.costs.price.mean


def _axis(field: str, title: str) -> dict[str, Any]:
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "axis": {"tickCount": 6, "labelOverlap": "greedy"},
    }


MUCH_BETWEEN_STEPS = 0.05
"""Share of the steady time between steps above which the report mentions it."""


def much_between_steps(experiment: ExperimentSummary) -> list[str]:
    """Return a sentence if much of the time is between steps."""
    much = [
        f"{percent(one.between_steps.mean)} with {size(experiment, one)}"
        for one in experiment.points
        if one.between_steps and one.between_steps.mean > MUCH_BETWEEN_STEPS
    ]
    if not much:
        return []
    much[0] = much[0].replace(" with", " of the steady time with", 1)
    return [
        f"Time between steps (validation, checkpoints) is {listed(much)}. Throughput and node-hours count "
        "steps only, so a whole training takes longer than they suggest."
    ]


def methods(summary: Summary) -> Iterator[str]:
    """Describe the scope of costs, and their rates."""
    if any(one.costs and one.throughput_samples_per_s for one in summary.points):
        units = " or ".join(dict.fromkeys(each.unit for each in summary.experiments if each.points))
        yield (
            f"Hours and node-hours of a million {units} cover steps in the steady state only. "
            "Charged node-hours cover a whole job, with start, warm-up, validation and "
            "checkpoints; so does the price if they are known. Means of costs and energy are "
            "arithmetic, since bills add up."
        )
        yield from _of_rates(summary.rates, units)


def _of_rates(rates: Rates, units: str) -> Iterator[str]:
    """Describe the rates of prices, energy and carbon."""
    if rates.price_per_node_hour is not None:
        yield f"A node-hour costs {rates.price_per_node_hour} {rates.currency}."
    pue = f", times the site's PUE of {rates.pue}" if rates.pue else ""
    yield f"Energy per million {units} covers processors and GPUs{pue}."
    if rates.carbon_g_per_kwh is not None:
        yield f"Carbon is counted as {rates.carbon_g_per_kwh} g of CO₂ per kWh."
    if rates.source:
        yield f"Rates: {rates.source}."


def shares(point: PointSummary) -> Iterator[Quantity]:
    """Yield the rows of summary.csv on time between steps and FLOPs utilisation."""
    return known(
        ("between_steps", "1", point.between_steps),
        ("flops_utilisation", "1", point.flops_utilisation),
    )


def quantities(point: PointSummary) -> Iterator[Quantity]:
    """Yield the rows of summary.csv on costs of a million samples."""
    costs = point.costs
    if costs:
        yield from known(
            ("node_hours_of_a_million_samples", "h", costs.node_hours),
            ("charged_node_hours_of_a_million_samples", "h", costs.charged_node_hours),
            ("seconds_around_the_steady_state", "s", costs.around_s),
            ("price_of_a_million_samples", "currency", costs.price),
            ("energy_of_a_million_samples", "kWh", costs.energy_kwh),
            ("carbon_of_a_million_samples", "kg", costs.carbon_kg),
        )

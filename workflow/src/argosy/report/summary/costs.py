"""What a million samples take at a point: hours, energy, money and carbon."""

from collections.abc import Sequence
from dataclasses import dataclass

from argosy.report.statistics.estimates import Estimate, scaled, total_estimate
from argosy.report.summary.usage import UsageSummary
from argosy.report.topics.costs import OutsideSteps
from argosy.units import J_PER_KWH

SAMPLES = 1_000_000


@dataclass(frozen=True)
class Rates:
    """What the report is told of prices and carbon; None is not known.

    `pue` is the energy of the whole site over that of its computers; `peak_tflops_per_node` is of the
    precision that one trains in.
    """

    price_per_node_hour: float | None = None
    currency: str | None = None
    carbon_g_per_kwh: float | None = None
    pue: float | None = None
    source: str | None = None
    peak_tflops_per_node: float | None = None


NOT_KNOWN = Rates()


@dataclass(frozen=True)
class CostSummary:
    """Of `SAMPLES` samples at a point.

    `hours` and `node_hours` are those of steps in the steady state alone. `charged_node_hours` are those of
    one job that trains so many: what lies between steps, as validation and checkpoints do, is in them, and
    `around_s`, the seconds of a job before and after its steady state. Both are None where a run's steps do
    not tell. `price` is that of the charged node-hours, else of `node_hours`. `energy_kwh` is that of what
    `energy_of` says, times the site's PUE if that is known. None: it was not read, or there is no rate.
    """

    hours: Estimate
    node_hours: Estimate
    price: Estimate | None
    energy_kwh: Estimate | None
    energy_of: str | None
    carbon_kg: Estimate | None
    charged_node_hours: Estimate | None = None
    around_s: Estimate | None = None


def flops_utilisation(
    nodes: int, throughput: Estimate, flops_per_sample: Estimate | None, rates: Rates
) -> Estimate | None:
    """Return the share of the nodes' peak that the model's own operations take.

    Chowdhery et al., "PaLM", arXiv:2204.02311, appendix B. None where either is not known.
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
) -> CostSummary:
    """Return what `SAMPLES` samples take on so many nodes, in the mean of runs with these throughputs.

    `outside` is what the same runs spent outside their steps.
    """
    hours = total_estimate([SAMPLES / 3600 / rate for rate in runs_samples_per_s])
    node_hours = scaled(hours, nodes)
    charged, around_s = _charged(nodes, runs_samples_per_s, outside)
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
    """Return node-hours with all that is charged, and the seconds of a job around its steady state."""
    known = [one for one in outside if one and one.around_s is not None and one.between < 1]
    if not known or len(known) < len(runs_samples_per_s):
        return None, None
    around_s = [one.around_s or 0.0 for one in known]
    node_hours = [
        nodes * (SAMPLES / rate / (1 - one.between) + around) / 3600
        for rate, one, around in zip(runs_samples_per_s, known, around_s, strict=True)
    ]
    return total_estimate(node_hours), total_estimate(around_s)

"""What a million samples take at a point: hours, energy, money and carbon."""

from dataclasses import dataclass

from argosy.analysis.statistics import Estimate, scaled
from argosy.report.usage import UsageSummary
from argosy.units import J_PER_KWH

SAMPLES = 1_000_000


@dataclass(frozen=True)
class Rates:
    """What the report is told of prices and carbon; None is not known.

    `pue` is the energy of the whole site over that of its computers.
    """

    price_per_node_hour: float | None = None
    currency: str | None = None
    carbon_g_per_kwh: float | None = None
    pue: float | None = None
    source: str | None = None


NOT_KNOWN = Rates()


@dataclass(frozen=True)
class CostSummary:
    """Of `SAMPLES` samples at a point, start-up left out.

    `energy_kwh` is that of what `energy_of` says, times the site's PUE if that is known. None: it was not
    read, or there is no rate.
    """

    hours: Estimate
    node_hours: Estimate
    price: Estimate | None
    energy_kwh: Estimate | None
    energy_of: str | None
    carbon_kg: Estimate | None


def cost_summary(
    nodes: int, samples_per_s: Estimate, usage: UsageSummary | None, rates: Rates
) -> CostSummary:
    """What `SAMPLES` samples take on so many nodes at this throughput."""
    hours = _inverse(samples_per_s, SAMPLES / 3600)
    node_hours = scaled(hours, nodes)
    price, carbon = rates.price_per_node_hour, rates.carbon_g_per_kwh
    per_sample = usage.energy_j_per_sample if usage else None
    energy = scaled(per_sample, SAMPLES / J_PER_KWH * (rates.pue or 1)) if per_sample else None
    return CostSummary(
        hours=hours,
        node_hours=node_hours,
        price=None if price is None else scaled(node_hours, price),
        energy_kwh=energy,
        energy_of=usage.energy_of if usage and energy else None,
        carbon_kg=None if energy is None or carbon is None else scaled(energy, carbon / 1000),
    )


def _inverse(estimate: Estimate, amount: float) -> Estimate:
    """`amount` over an estimate; a larger rate takes less time."""
    low, high = estimate.low, estimate.high
    return Estimate(
        estimate.n,
        amount / estimate.mean,
        amount / high if high else None,
        # An interval of a throughput that reaches to 0 says nothing of how long it takes at most.
        amount / low if low and low > 0 else None,
    )

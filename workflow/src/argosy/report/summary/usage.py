"""What the runs of a point used, for summary.json and the page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from argosy.report.statistics.estimates import (
    Estimate,
    geometric_mean_estimate,
    proportion_estimate,
    total_estimate,
)
from argosy.report.topics.usage import Usage, of_widest


@dataclass(frozen=True)
class UsageSummary:
    """Means over the runs that could read a quantity, and the most of any run for memory.

    `cpu_busy` and `gpu_busy` are shares; network is that of a node, both ways. Energy is that of the whole
    job but per sample, which is that of the steady state, of what `energy_of` says. None: no run could
    read it.
    """

    cpu_busy: Estimate | None
    memory_bytes_max: int | None
    network_bytes_per_s: Estimate | None
    gpu_busy: Estimate | None
    gpu_memory_bytes_max: int | None
    cpu_energy_j: Estimate | None
    gpu_energy_j: Estimate | None
    energy_j_per_sample: Estimate | None
    energy_of: str | None


def usage_summary(runs: Sequence[Usage]) -> UsageSummary | None:
    """Return the usage of the runs of a point; None when none of them has telemetry."""
    if not runs:
        return None
    return UsageSummary(
        cpu_busy=_share(runs, lambda run: run.cpu_busy),
        memory_bytes_max=max((run.memory_bytes or 0 for run in runs), default=0) or None,
        network_bytes_per_s=_rate(runs, lambda run: run.network_bytes_per_s),
        gpu_busy=_share(runs, lambda run: run.gpu_busy),
        gpu_memory_bytes_max=max((run.gpu_memory_bytes or 0 for run in runs), default=0) or None,
        cpu_energy_j=_mean(runs, lambda run: run.cpu_j),
        gpu_energy_j=_mean(runs, lambda run: run.gpu_j),
        energy_j_per_sample=_mean(of_widest(runs), lambda run: run.j_per_sample),
        energy_of=next((run.power_of for run in of_widest(runs)), None),
    )


_Of = Callable[[Usage], float | None]


def _known(runs: Sequence[Usage], of: _Of) -> list[float]:
    return [value for value in map(of, runs) if value is not None]


def _mean(runs: Sequence[Usage], of: _Of) -> Estimate | None:
    values = _known(runs, of)
    return total_estimate(values) if values else None


def _share(runs: Sequence[Usage], of: _Of) -> Estimate | None:
    # Counters are read one after the other, so that a little more than all of the time may seem used.
    values = [min(value, 1.0) for value in _known(runs, of)]
    return proportion_estimate(values) if values else None


def _rate(runs: Sequence[Usage], of: _Of) -> Estimate | None:
    values = _known(runs, of)
    if not values or min(values) <= 0:
        # Of what was nothing once there is no proportion.
        return Estimate(len(values), sum(values) / len(values)) if values else None
    return geometric_mean_estimate(values)

"""What the runs of a point used, for summary.json and the page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from argosy.analysis.statistics import Estimate, mean_estimate
from argosy.analysis.usage import Usage, of_widest


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
    """Of the runs of a point; None when none of them has telemetry."""
    if not runs:
        return None
    return UsageSummary(
        cpu_busy=_mean(runs, lambda run: run.cpu_busy),
        memory_bytes_max=max((run.memory_bytes or 0 for run in runs), default=0) or None,
        network_bytes_per_s=_mean(runs, lambda run: run.network_bytes_per_s),
        gpu_busy=_mean(runs, lambda run: run.gpu_busy),
        gpu_memory_bytes_max=max((run.gpu_memory_bytes or 0 for run in runs), default=0) or None,
        cpu_energy_j=_mean(runs, lambda run: run.cpu_j),
        gpu_energy_j=_mean(runs, lambda run: run.gpu_j),
        energy_j_per_sample=_mean(of_widest(runs), lambda run: run.j_per_sample),
        energy_of=next((run.power_of for run in of_widest(runs)), None),
    )


def _mean(runs: Sequence[Usage], of: Callable[[Usage], float | None]) -> Estimate | None:
    values = [value for value in map(of, runs) if value is not None]
    return mean_estimate(values) if values else None

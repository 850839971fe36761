"""Resource usage by telemetry: processors, memory, network, GPUs and energy, and GPUs left idle."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from argosy.report.numbers import NONE, count, number, percent, singular
from argosy.report.runs.study_tables import StudyTables
from argosy.report.statistics.estimates import (
    Estimate,
    geometric_mean_estimate,
    proportion_estimate,
    total_estimate,
)
from argosy.report.summary.models import ExperimentSummary, PointSummary, Summary
from argosy.report.summary.parts import Rates, Unread, UsageSummary
from argosy.report.table import Cell, Column, Quantity, Table, column, estimate, known, size_columns
from argosy_common.units import amount

PROCESSORS, GPUS, BOTH = "processors", "GPUs", "processors and GPUs"
"""Devices of a power."""

LEAST_COVERED = 0.5
"""Share of the steady state that a counter's readings must cover; otherwise its power is unknown."""

# Counters begin with 0 in each attempt; a row is for a GPU or for a node's processors.
_QUERY = f"""
WITH device AS (
    SELECT experiment, run_id, attempt, node, gpu, max(at_s) - min(at_s) AS seconds,
        max(cpu_s) - min(cpu_s) AS cpu_s, max(cpus) AS cpus, max(memory_used_bytes) AS memory_bytes,
        max(network_sent_bytes) AS sent_bytes, max(network_received_bytes) AS received_bytes,
        max(cpu_energy_j) AS cpu_j, avg(utilisation) AS utilisation, max(energy_j) AS gpu_j
    FROM telemetry GROUP BY ALL
), used AS (
    SELECT experiment, run_id,
        count(*) FILTER (gpu IS NULL) AS nodes,
        count(cpu_j) FILTER (gpu IS NULL) AS nodes_of_energy,
        count(*) FILTER (gpu IS NOT NULL) AS gpus,
        count(gpu_j) FILTER (gpu IS NOT NULL) AS gpus_of_energy,
        sum(cpu_s) FILTER (gpu IS NULL) / nullif(sum(cpus * seconds) FILTER (gpu IS NULL), 0)
            AS cpu_busy,
        max(memory_bytes) FILTER (gpu IS NULL) AS memory_bytes,
        sum(sent_bytes + received_bytes) / nullif(sum(seconds) FILTER (gpu IS NULL), 0)
            AS network_bytes_per_s,
        avg(utilisation) AS gpu_busy,
        max(memory_bytes) FILTER (gpu IS NOT NULL) AS gpu_memory_bytes,
        sum(cpu_j) AS cpu_j, sum(gpu_j) AS gpu_j
    FROM device GROUP BY ALL
), steady AS (
    SELECT experiment, run_id, min(began_s) AS began_s, max(ended_s) AS ended_s,
        sum(samples) / nullif(max(seconds), 0) AS samples_per_s
    FROM steady_rank GROUP BY ALL
), steady_device AS (
    SELECT experiment, run_id, node, gpu, ended_s - began_s AS wanted_s, max(at_s) - min(at_s) AS seconds,
        max(coalesce(cpu_energy_j, energy_j)) - min(coalesce(cpu_energy_j, energy_j)) AS joules
    FROM telemetry JOIN steady USING (experiment, run_id)
    WHERE at_s BETWEEN began_s AND ended_s AND coalesce(cpu_energy_j, energy_j) IS NOT NULL
    GROUP BY ALL
), power AS (
    SELECT experiment, run_id,
        count(*) FILTER (gpu IS NULL) AS nodes_of_power,
        count(*) FILTER (gpu IS NOT NULL) AS gpus_of_power,
        sum(joules / seconds) FILTER (gpu IS NULL) AS cpu_w,
        sum(joules / seconds) FILTER (gpu IS NOT NULL) AS gpu_w
    FROM steady_device WHERE seconds > 0 AND seconds >= {LEAST_COVERED} * wanted_s GROUP BY ALL
), seen AS (
    SELECT experiment, run_id, count(*) AS gpus_seen FROM gpus GROUP BY ALL
)
SELECT used.*, runs.nodes AS nodes_asked, runs.nodes * runs.pieces AS nodes_expected,
    coalesce(gpus_seen, 0) AS gpus_expected, samples_per_s, nodes_of_power, gpus_of_power, cpu_w, gpu_w
FROM used JOIN runs USING (experiment, run_id) LEFT JOIN seen USING (experiment, run_id)
LEFT JOIN steady USING (experiment, run_id) LEFT JOIN power USING (experiment, run_id)
ORDER BY experiment, run_id
"""

_UNREAD = """
SELECT what, why, count(DISTINCT (experiment, run_id, node)) AS nodes
FROM unread GROUP BY ALL ORDER BY what, why
"""


@dataclass(frozen=True)
class Usage:
    """Resource usage of a run; None unless all devices were read.

    From the agents' start to their end: `cpu_busy` and `gpu_busy` are shares of all processors and GPUs;
    `memory_bytes` is the maximum over nodes, `gpu_memory_bytes` over GPUs; `network_bytes_per_s` is the
    mean per node, both directions; `cpu_j` and `gpu_j` are the energy of processor packages and GPUs, in J.

    In the steady state: `power_w` is the power of all nodes, `j_per_sample` is power over throughput, and
    `power_of` names the devices, PROCESSORS, GPUS or BOTH. If there are GPUs, it includes them.
    """

    cpu_busy: float | None
    memory_bytes: int | None
    network_bytes_per_s: float | None
    gpu_busy: float | None
    gpu_memory_bytes: int | None
    cpu_j: float | None
    gpu_j: float | None
    power_w: float | None
    power_of: str | None
    j_per_sample: float | None


def usage(tables: StudyTables) -> Mapping[tuple[str, str], Usage]:
    """Return the usage of each run with telemetry.

    Energy is given only if all nodes, or all GPUs, reported it: a partial sum would look better.
    """
    return {(row["experiment"], row["run_id"]): _usage(row) for row in tables.fetch(_QUERY)}


def of_widest(runs: Sequence[Usage]) -> list[Usage]:
    """Return the runs whose power covers the most devices, so that means are of the same devices."""
    for power_of in (BOTH, GPUS, PROCESSORS):
        if found := [run for run in runs if run.power_of == power_of]:
            return found
    return []


def unread(tables: StudyTables) -> list[Unread]:
    """Return the missing telemetry, by file and reason."""
    return [Unread(**row) for row in tables.fetch(_UNREAD)]


def _usage(row: Mapping[str, Any]) -> Usage:
    all_nodes = row["nodes_of_energy"] == row["nodes"] == row["nodes_expected"]
    all_gpus = row["gpus_of_energy"] == row["gpus"] == row["gpus_expected"] > 0
    power_w, power_of = _power(row)
    rate = row["samples_per_s"]
    return Usage(
        cpu_busy=row["cpu_busy"],
        memory_bytes=row["memory_bytes"],
        network_bytes_per_s=row["network_bytes_per_s"],
        gpu_busy=row["gpu_busy"],
        gpu_memory_bytes=row["gpu_memory_bytes"],
        cpu_j=row["cpu_j"] if all_nodes else None,
        gpu_j=row["gpu_j"] if all_gpus else None,
        power_w=power_w,
        power_of=power_of,
        j_per_sample=power_w / rate if power_w and rate else None,
    )


def _power(row: Mapping[str, Any]) -> tuple[float | None, str | None]:
    """Return the power of a run's steady state, in W, and its devices."""
    has_processors = row["nodes_of_power"] == row["nodes_asked"]
    if not row["gpus_expected"]:
        return (row["cpu_w"], PROCESSORS) if has_processors else (None, None)
    if row["gpus_of_power"] != row["gpus_expected"]:
        return None, None
    return (row["cpu_w"] + row["gpu_w"], BOTH) if has_processors else (row["gpu_w"], GPUS)


def usage_summary(runs: Sequence[Usage]) -> UsageSummary | None:
    """Summarise the usage of a point's runs; None without telemetry."""
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


def _values(runs: Sequence[Usage], of: _Of) -> list[float]:
    return [value for value in map(of, runs) if value is not None]


def _mean(runs: Sequence[Usage], of: _Of) -> Estimate | None:
    values = _values(runs, of)
    return total_estimate(values) if values else None


def _share(runs: Sequence[Usage], of: _Of) -> Estimate | None:
    # Counters are not read simultaneously, so shares may slightly exceed 1.
    values = [min(value, 1.0) for value in _values(runs, of)]
    return proportion_estimate(values) if values else None


def _rate(runs: Sequence[Usage], of: _Of) -> Estimate | None:
    values = _values(runs, of)
    if not values or min(values) <= 0:
        # A value of 0 has no geometric mean.
        return Estimate(len(values), sum(values) / len(values)) if values else None
    return geometric_mean_estimate(values)


IDLE = 0.01
"""Share of busy time below which a GPU counts as unused; programs on GPUs exceed it, start-up included."""


def unused_gpus(experiment: ExperimentSummary) -> list[str]:
    """Return a sentence if GPUs were requested but seem unused."""
    asked = experiment.setup.resources.get("gpus_per_rank", 0)
    used = [point.usage for point in experiment.points if point.usage]
    if not asked or not used:
        return []
    begin = f"Its runs requested {count(asked, 'GPU')} per rank"
    if not any(_has_gpus(usage) for usage in used):
        return [
            f"{begin}, but telemetry found none on their nodes, see the missing telemetry: "
            "they may have computed on processors."
        ]
    busy = [usage.gpu_busy.mean for usage in used if usage.gpu_busy]
    if busy and max(busy) < IDLE:
        return [
            f"{begin}, which were busy for {percent(max(busy), 1)} of the time: they may have computed on "
            "processors."
        ]
    return []


def _has_gpus(usage: UsageSummary) -> bool:
    return usage.gpu_busy is not None or usage.gpu_memory_bytes_max is not None


_NOT_READ = "not read"


def tables(experiment: ExperimentSummary, rates: Rates) -> Iterator[Table]:
    """Yield the table of resource usage, if there is telemetry."""
    points = [point for point in experiment.points if point.usage]
    if not points:
        return

    def used(heading: str, text: Callable[[UsageSummary], str]) -> Column:
        return column(points, heading, lambda one: text(one.usage) if one.usage else NONE)

    one = singular(experiment.unit)
    carbon = [column(points, "kg of CO₂ per million", _carbon)]
    yield Table(
        [
            *size_columns(points),
            used("CPUs busy", lambda one: _percent(one.cpu_busy)),
            used("Memory", lambda one: _bytes(one.memory_bytes_max)),
            used("Network", lambda one: _bytes_per_s(one.network_bytes_per_s)),
            used("GPUs busy", lambda one: _percent(one.gpu_busy)),
            used("GPU memory", lambda one: _bytes(one.gpu_memory_bytes_max)),
            used("CPU energy", lambda one: _joules(one.cpu_energy_j)),
            used("GPU energy", lambda one: _joules(one.gpu_energy_j)),
            used(f"Per {one}", _joules_per_sample),
            *(carbon if rates.carbon_g_per_kwh is not None else []),
        ],
        "Means over runs; memory: maximum; network: both directions of a node; energy: the whole "
        f"job, per {one} in the steady state.",
        f"Resource usage of {experiment.experiment}",
        folded="Resource usage",
    )


def _percent(found: Estimate | None) -> str:
    return percent(found.mean if found else None)


def _bytes(found: int | None) -> str:
    return amount(found) if found else NONE


def _bytes_per_s(found: Estimate | None) -> str:
    return f"{amount(round(found.mean))}/s" if found else NONE


def _joules(found: Estimate | None) -> str:
    return f"{number(found.mean)} J" if found else _NOT_READ


def _joules_per_sample(used: UsageSummary) -> str:
    if used.energy_j_per_sample:
        return f"{_joules(used.energy_j_per_sample)} of {used.energy_of}"
    was_read = used.cpu_energy_j or used.gpu_energy_j
    return "readings cover less than half of the steady state" if was_read else _NOT_READ


def _carbon(point: PointSummary) -> Cell:
    carbon = point.costs.carbon_kg if point.costs else None
    return estimate(carbon) if carbon else Cell(_NOT_READ)


def methods(summary: Summary) -> Iterator[str]:
    """Describe telemetry, if there is any."""
    if any(one.usage for one in summary.points):
        yield (
            "Telemetry measures resource usage from the agents' start to their end. Energy "
            "covers the whole job, if all its counters could be read. Energy per sample is mean "
            "power divided by throughput, both in the steady state."
        )


def quantities(point: PointSummary) -> Iterator[Quantity]:
    """Yield the rows of summary.csv."""
    used = point.usage
    if used:
        yield from known(
            ("cpu_busy", "1", used.cpu_busy),
            ("network", "B/s", used.network_bytes_per_s),
            ("gpu_busy", "1", used.gpu_busy),
            ("cpu_energy", "J", used.cpu_energy_j),
            ("gpu_energy", "J", used.gpu_energy_j),
            ("energy_per_sample", "J", used.energy_j_per_sample),
        )

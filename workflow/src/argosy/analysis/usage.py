"""What runs used of their nodes: processors, memory, network, GPUs and energy, by telemetry."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import duckdb

from argosy.results.tables import fetch

# Counters begin with 0 in each incarnation; a GPU's rows have no processors and the other way round.
_QUERY = """
WITH device AS (
    SELECT experiment, run_id, incarnation, node, gpu, max(at_s) - min(at_s) AS seconds,
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
), seen AS (
    SELECT experiment, run_id, count(*) AS gpus_seen FROM gpus GROUP BY ALL
), made AS (
    SELECT experiment, run_id, sum(samples) AS samples FROM steps GROUP BY ALL
)
SELECT used.*, runs.nodes * runs.pieces AS nodes_expected, coalesce(gpus_seen, 0) AS gpus_expected,
    made.samples AS samples
FROM used JOIN runs USING (experiment, run_id)
LEFT JOIN seen USING (experiment, run_id) LEFT JOIN made USING (experiment, run_id)
ORDER BY experiment, run_id
"""

_UNREAD = """
SELECT what, why, count(DISTINCT (experiment, run_id, node)) AS nodes
FROM unread GROUP BY ALL ORDER BY what, why
"""


@dataclass(frozen=True)
class Usage:
    """What a run used, from its agents' start to their end; None is what was not read everywhere.

    `cpu_busy` and `gpu_busy` are shares of all processors and GPUs, `memory_bytes` the most of any
    node, `gpu_memory_bytes` of any GPU, `network_bytes_per_s` both ways, of a node in the mean. Energy
    is that of processors' packages (`cpu_j`) and of GPUs (`gpu_j`) alone, in joules; `energy_j` is
    what was read of both, and `j_per_sample` that over all samples.
    """

    cpu_busy: float | None
    memory_bytes: int | None
    network_bytes_per_s: float | None
    gpu_busy: float | None
    gpu_memory_bytes: int | None
    cpu_j: float | None
    gpu_j: float | None
    energy_j: float | None
    j_per_sample: float | None


@dataclass(frozen=True)
class Unread:
    """What could not be read, why, and on how many nodes of all runs."""

    what: str
    why: str
    nodes: int


def usage(tables: duckdb.DuckDBPyConnection) -> Mapping[tuple[str, str], Usage]:
    """By experiment and run_id, of each completed run that has telemetry.

    An energy is given only when every node, or every GPU, of the run has it: part of it would look
    like a better run.
    """
    return {(row["experiment"], row["run_id"]): _usage(row) for row in fetch(tables, _QUERY)}


def unread(tables: duckdb.DuckDBPyConnection) -> list[Unread]:
    """What telemetry could not read, by what and why."""
    return [Unread(**row) for row in fetch(tables, _UNREAD)]


def _usage(row: Mapping[str, Any]) -> Usage:
    all_nodes = row["nodes_of_energy"] == row["nodes"] == row["nodes_expected"]
    all_gpus = row["gpus_of_energy"] == row["gpus"] == row["gpus_expected"] > 0
    cpu_j = row["cpu_j"] if all_nodes else None
    gpu_j = row["gpu_j"] if all_gpus else None
    known = [joules for joules in (cpu_j, gpu_j) if joules is not None]
    energy_j = sum(known) if known else None
    return Usage(
        cpu_busy=row["cpu_busy"],
        memory_bytes=row["memory_bytes"],
        network_bytes_per_s=row["network_bytes_per_s"],
        gpu_busy=row["gpu_busy"],
        gpu_memory_bytes=row["gpu_memory_bytes"],
        cpu_j=cpu_j,
        gpu_j=gpu_j,
        energy_j=energy_j,
        j_per_sample=energy_j / row["samples"] if energy_j and row["samples"] else None,
    )

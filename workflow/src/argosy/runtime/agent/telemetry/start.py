"""Set-up of a node's telemetry from its settings."""

from __future__ import annotations

import os
import socket
from functools import partial
from typing import Any, Callable, Mapping, Sequence

from ...contract.layout import SCHEMA_VERSION, node_telemetry
from ..settings import Settings
from . import amd, nvidia
from .gpu import GpuSource
from .node import (
    CpuEnergy,
    Memory,
    OwnCpu,
    disk_traffic,
    job_cpu,
    network_traffic,
    node_cpu,
)
from .sampler import Telemetry, TelemetryWriter
from .source import NodeSource, Reader, Source


def telemetry_of(settings: Settings, say: Callable[[str], None]) -> Telemetry:
    """Return the node's telemetry, not started yet; it will `say` if requested GPUs are missing."""

    def warn(header: Mapping[str, Any]) -> None:
        missing = missing_gpus(settings, header)
        if missing:
            say(f"node {settings.node}: {missing}")

    own, memory = OwnCpu(), Memory()
    readers: Mapping[Sequence[str], Reader] = {
        ("cpu_s", "cpus"): partial(node_cpu, os.sched_getaffinity(0)),
        ("job_cpu_s",): job_cpu,
        ("memory_used_bytes",): memory.read,
        ("network_received_bytes", "network_sent_bytes"): network_traffic,
        ("disk_read_bytes", "disk_written_bytes"): disk_traffic,
        ("cpu_energy_j",): CpuEnergy().read,
        ("agent_cpu_s",): own.read,
    }
    header = {
        "kind": "header",
        "schema_version": SCHEMA_VERSION,
        "node": settings.node,
        "host": socket.gethostname(),
    }
    sources: list[Source] = [
        NodeSource(readers, lambda: {"memory_of": memory.of}),
        _gpus_of(settings),
    ]
    return Telemetry(
        TelemetryWriter(settings.record(node_telemetry(settings.node))),
        header,
        sources,
        own.note,
        warn,
    )


def missing_gpus(settings: Settings, header: Mapping[str, Any]) -> str | None:
    """Return a warning if the telemetry's header has fewer GPUs than the run requested.

    Telemetry may see fewer GPUs than the ranks do, so this does not end the run.
    """
    asked = (settings.run.gpus_per_rank or 0) * settings.ranks_per_node
    seen = len(header["gpus"])
    if seen >= asked:
        return None
    reason = header["unread"].get(GpuSource.name)
    return (
        f"warning: the run requested {asked} GPU{'s' * (asked > 1)} per node, and telemetry sees "
        f"{seen or 'none'}{f' ({reason})' if reason else ''}: ranks may run on CPUs, or fail"
    )


def _gpus_of(settings: Settings) -> Source:
    if amd.is_here():
        return GpuSource(lambda: amd.find_gpus(settings.visible_amd_gpus))
    return GpuSource(lambda: nvidia.find_gpus(settings.nvml, settings.visible_gpus))

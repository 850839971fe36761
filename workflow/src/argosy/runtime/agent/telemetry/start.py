"""Telemetry of one node, made of what its settings say."""

from __future__ import annotations

import os
import socket

from ..settings import SCHEMA_VERSION, Settings
from .amd import AmdGpuSource
from .cpu import JobCpu, NodeCpu, OwnCpu
from .disk import Disk
from .energy import CpuEnergy
from .gpu import GpuSource
from .memory import Memory
from .network import Network
from .reading import Reader
from .sampler import Telemetry
from .source import NodeSource, Source
from .writer import TelemetryWriter


def telemetry_of(settings: Settings) -> Telemetry:
    """Return None: it has not begun yet."""
    own, memory = OwnCpu(), Memory()
    readers: list[Reader] = [
        NodeCpu(os.sched_getaffinity(0)),
        JobCpu(),
        memory,
        Network(),
        Disk(),
        CpuEnergy(),
        own,
    ]
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
    return Telemetry(TelemetryWriter(settings.telemetry), header, sources, own.note)


def _gpus_of(settings: Settings) -> Source:
    amd = AmdGpuSource(settings.visible_amd_gpus)
    return amd if amd.is_here() else GpuSource(settings.nvml, settings.visible_gpus)

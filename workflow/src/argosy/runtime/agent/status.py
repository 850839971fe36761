"""node-<n>.json: the agent's status of its node."""

from __future__ import annotations

import json
import os
import platform
import socket
import time
from dataclasses import asdict, dataclass
from typing import Any, Sequence

from ..contract.files import write_json
from ..contract.layout import SCHEMA_VERSION, node_status
from .coordination.failure import Failure
from .files import Reserve
from .settings import Settings

RUNNING = "running"
COMPLETED = "completed"
FAILED = "failed"
INTERRUPTED = "interrupted"
CANCELLED = "cancelled"


@dataclass
class RankStatus:
    """The status of one rank; all values are None while it runs. `ended` is unix time.

    `heard`: whether a process of the rank handled the warning before the job's end; None: no warning.
    `unproven_s`: seconds from the warning to exit code 0, if the program may be unfinished.
    `raised`: the exception that the rank printed last, though it ended with exit code 0.
    `cpus`: the CPUs that the rank is bound to; None: not bound.
    `not_finite`: the `text` and time (`at`) of the first printed loss that is NaN or infinite.
    """

    rank: int
    local_rank: int
    exit_code: int | None = None
    signal: int | None = None
    ended: float | None = None
    heard: bool | None = None
    unproven_s: float | None = None
    not_finite: dict[str, object] | None = None
    cpus: str | None = None
    raised: str | None = None


class StatusFile:
    """Writes the node's status file."""

    def __init__(self, settings: Settings) -> None:
        self._node = settings.node
        self.path = settings.record(node_status(settings.node))
        self._reserve = Reserve(settings.record(f".reserve-{settings.node}"))
        self._started, self._began = time.time(), time.monotonic()
        self._machine = describe_machine()
        self._ranks_started: float | None = None

    def begin(self) -> None:
        """Reserve disk space for the final status and write the state `running`. Raises OSError."""
        self._reserve.take()
        self.update([])

    def note_start_of_ranks(self) -> None:
        self._ranks_started = time.time()

    def update(self, ranks: Sequence[RankStatus]) -> None:
        """Write the ranks' status, without using the reserve. Raises OSError."""
        write_json(self.path, self._content(RUNNING, ranks))

    def end(
        self, state: str, ranks: Sequence[RankStatus], failure: Failure | None, **more: object
    ) -> None:
        """Write the final status, using the reserve on a full disk. Raises OSError.

        `more` has the other keys of a node that has ended (docs/run-folder.md).
        """
        content = self._content(state, ranks)
        # The system's time may be set meanwhile; the run's duration and costs do not depend on it.
        ended = self._started + time.monotonic() - self._began
        content.update(ended=ended, failure=failure and failure.record(), **more)
        self._reserve.write_json(self.path, content)
        self._reserve.drop()

    def _content(self, state: str, ranks: Sequence[RankStatus]) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "node": self._node,
            "host": socket.gethostname(),
            "state": state,
            "started": self._started,
            "ranks_started": self._ranks_started,
            "ended": None,
            "machine": self._machine,
            "ranks": [asdict(rank) for rank in ranks],
            "failure": None,
            **_staged_data(),
        }


def _staged_data() -> dict[str, Any]:
    """Return the record of copied data that stage_data.py left in ARGOSY_STAGED."""
    staged = os.environ.get("ARGOSY_STAGED")
    return {"staged": json.loads(staged)} if staged else {}


def describe_machine() -> dict[str, Any]:
    """Describe this machine: `cpus` counts the usable CPUs, `engine` names the container's engine."""
    return {
        "cpu_model": _cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": os.uname().release,
        "engine": os.environ.get("ARGOSY_ENGINE") or None,
    }


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    # ARM and POWER kernels have no such line.
    return platform.machine()

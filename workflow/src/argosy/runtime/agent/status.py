"""node-<n>.json: what the agent says of its node."""

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
    """How one rank ended; everything is None while it runs. `ended` is unix seconds.

    `heard`: whether a process of it handled the warning before the end of the job; None: there was none.
    `unproven_s`: seconds from then to its end with 0, where nothing shows whether it was done.
    `raised`: the exception that it printed last, though it ended with exit code 0.
    `cpus`: the CPUs that it was bound to; None: it was not bound.
    `not_finite` has the `text` of the first loss that the rank printed as NaN or infinite, and when (`at`).
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
    """Writes the status, from the first state to the last."""

    def __init__(self, settings: Settings) -> None:
        self._node = settings.node
        self.path = settings.record(node_status(settings.node))
        self._reserve = Reserve(settings.record(f".reserve-{settings.node}"))
        self._started = time.time()
        self._machine = describe_machine()
        self._ranks_started: float | None = None

    def begin(self) -> None:
        """Keep space back for the last word and say that the node is running. Raises OSError."""
        self._reserve.take()
        self.update([])

    def note_start_of_ranks(self) -> None:
        """Note that all nodes are there and the ranks start now."""
        self._ranks_started = time.time()

    def update(self, ranks: Sequence[RankStatus]) -> None:
        """Say how the ranks are; the reserve is left for the end. Raises OSError."""
        write_json(self.path, self._content(RUNNING, ranks))

    def end(
        self, state: str, ranks: Sequence[RankStatus], failure: Failure | None, **more: object
    ) -> None:
        """Say how it ended, if need be in the space kept back. Raises OSError.

        `more` are keys that a node has when it has ended (docs/run-folder.md).
        """
        content = self._content(state, ranks)
        content.update(ended=time.time(), failure=failure and asdict(failure), **more)
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
    """Return how the node came by copies of the job's data, if it has any."""
    staged = os.environ.get("ARGOSY_STAGED")
    return {"staged": json.loads(staged)} if staged else {}


def describe_machine() -> dict[str, Any]:
    """Return what the agent sees of its node.

    `cpus` are those that it may use; `engine` is what started its container, None without one.
    """
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
    # ARM and POWER kernels name no model in this place.
    return platform.machine()

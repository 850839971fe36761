"""What a scheduler can tell of its cluster, before anything of ours has run there."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from argosy.schedulers.base import Status


@dataclass(frozen=True)
class NodeKind:
    """Nodes that a job may take for alike; of those that differ, the least that each has."""

    name: str
    architecture: str
    cores: int
    threads_per_core: int
    """How many CPUs the scheduler counts for a core."""
    memory: int
    """MiB."""
    gpus: int
    gpu: str | None
    """The type of its GPUs as the scheduler spells it; None: it has none, or names no type."""
    options: Mapping[str, str]
    """How its GPUs are asked for."""
    nodes: tuple[str, ...]
    usable: int
    """How many of them take jobs now."""
    origin: str
    """Who says so, in words."""


@dataclass(frozen=True)
class QueueFacts:
    """A way into the cluster."""

    name: str
    """As the scheduler has it."""
    key: str
    """The same, as a site's file can have it."""
    kinds: tuple[str, ...]
    options: Mapping[str, str]
    nodes: int
    """The most that a job may have."""
    minutes: float | None
    """The most that a job may ask for; None: no limit."""
    aside: str
    """Why jobs that do not name it should not go there; empty: they may."""
    gpus_only: bool
    origin: str
    reserve: int = 0
    """How strong a reason there is to try others before it; 0: none."""


@dataclass(frozen=True)
class ClusterFacts:
    """A cluster as its scheduler tells of it."""

    name: str
    """Empty where it is not known."""
    kinds: tuple[NodeKind, ...]
    queues: tuple[QueueFacts, ...]
    """In the order in which they should be tried."""
    account: str | None
    account_required: bool
    account_origin: str
    unknown: tuple[str, ...]
    """What could not be found out, and why, in words."""
    notes: tuple[str, ...]
    """What is worth knowing and has no key."""


@dataclass(frozen=True)
class LookJob:
    """A small job that starts a command once on each of its nodes."""

    options: Mapping[str, str | None]
    """Of its script, as the scheduler names them; None: it takes no value."""
    nodes: int
    most: int
    """It may have as many nodes, where they are free."""
    folder: Path
    """Where it runs and its output lies, in `job.log`."""
    command: tuple[str, ...]
    """Without the number of the node, and of nodes, which the variables name that ARGOSY_NODE_VARIABLE and
    ARGOSY_NODES_VARIABLE name."""


class Surveyor(Protocol):
    """Asks a cluster what it is; each question has a time limit."""

    def survey(self, account: str | None, say: Callable[[str], None]) -> ClusterFacts:
        """Ask everything; `account` is the project that pays, where the user knows it.

        Raises:
            ArgosyError: when there is no such scheduler here, or it does not answer.
        """

    def cluster_name(self) -> str:
        """Return what the scheduler calls the cluster.

        Raises:
            ArgosyError: as `survey`.
        """

    def look_options(
        self, kind: NodeKind, queue: QueueFacts, account: str | None, nodes: int
    ) -> Mapping[str, str | None]:
        """Return the options of a job that looks at nodes of a kind."""

    def submit(self, job: LookJob) -> str:
        """Submit a job, and return its number. Raises SchedulerError; BusyError: it may be taken later."""

    def status(self, job_id: str) -> Status:
        """Return how a job is, with what it waits for in words. Raises SchedulerError without an answer."""

    def cancel(self, job_id: str) -> None:
        """End a job, as far as the scheduler answers."""

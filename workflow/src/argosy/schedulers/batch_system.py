"""What a scheduler's package has to have, what it can tell of its cluster, and how a site's is found.

A scheduler is a Python package whose `__init__.py` has the names of `BatchSystem`: one of this folder, or
`argosy_scheduler_<name>`, which anybody can install beside Argosy (docs/schedulers.md).
"""

import importlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from argosy.errors import ArgosyError
from argosy.schedulers.base import Accepted, Listed, Reason, Say, Scheduler, Status
from argosy.schedulers.job_request import JobRequest


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


FOLDER = Path(__file__).parent


class BatchSystem(Protocol):
    """A scheduler's package."""

    NAME: str
    """What messages call it."""
    HAS_QUEUE: bool
    """Whether jobs wait for nodes of a cluster; else they are processes of this machine."""
    SHARES_JOBS: bool
    """Whether a job may hold several runs (`resources.same_allocation`)."""
    TEMPLATES: Path | None
    """The folder of its `job.sbatch.j2`; None: that of the project's slurm/templates."""
    LOG_WORDS: Path | None
    """The program file that knows what its log and its launcher say (runtime/log_words.py)."""

    def make_scheduler(self, poll_s: float) -> Scheduler:
        """Return what submits and polls; `poll_s` is how often to look at a queue, in seconds."""

    def script_options(self, job: JobRequest) -> Mapping[str, str | None]:
        """Return the options of a job's script in their order, by name; None: it takes no value.

        Raises:
            ArgosyError: when the site's file still lacks what only its user knows, or the job's folder
                cannot be used there.
        """

    def directive(self, name: str, value: str | None) -> str:
        """Return the line of the script that holds an option."""

    def check_scripts(self, scripts: Iterable[Path], say: Say) -> Sequence[Accepted]:
        """Ask whether these scripts would be taken, before any is submitted.

        Raises:
            ArgosyError: naming the key to change.
        """

    def list_jobs(self) -> Callable[[], Sequence[Listed]] | None:
        """Return what lists the user's jobs, or raises SchedulerError; None where there is no queue."""

    def make_surveyor(self) -> Surveyor | None:
        """Return what asks a cluster what it is; None where that cannot be asked."""

    def explain(self, reason: str, *, alone: bool) -> Reason:
        """Return what the queue's reason for a wait means, of a job that may be the user's only one."""


def find_batch_system(name: str, named_in: str = "") -> BatchSystem:
    """Return the package of the scheduler of a site, `named_in` its file.

    Raises:
        ArgosyError: when there is none.
    """
    for package in (f"argosy.schedulers.{name}", f"argosy_scheduler_{name}"):
        if re.fullmatch("[a-z][a-z0-9_]*", name) and _is_package(package):
            found: BatchSystem = importlib.import_module(package)
            return found
    where = f"{named_in}: " if named_in else ""
    raise ArgosyError(
        f"{where}scheduler: there is no `{name}`",
        f"there are {', '.join(_built_in())}, and packages named "
        "argosy_scheduler_<name> that are installed beside Argosy (docs/schedulers.md)",
    )


def _is_package(name: str) -> bool:
    spec = find_spec(name)
    return spec is not None and spec.submodule_search_locations is not None


def _built_in() -> list[str]:
    """Return the schedulers of this folder."""
    return sorted(path.parent.name for path in FOLDER.glob("*/__init__.py"))

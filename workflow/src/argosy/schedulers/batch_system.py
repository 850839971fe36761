"""The interface of a scheduler's package, facts about its cluster, and the search for a site's scheduler.

A scheduler is a Python package whose `__init__.py` has the names of `BatchSystem`: one in this folder, or
an installed one named `argosy_scheduler_<name>` (docs/schedulers.md).
"""

import importlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from argosy.schedulers.base import Accepted, Listed, Reason, Say, Scheduler, Status
from argosy.schedulers.job_request import JobRequest
from argosy_common.errors import ArgosyError


@dataclass(frozen=True)
class NodeKind:
    """Nodes that are alike to a job; each value is the smallest among them."""

    name: str
    architecture: str
    cores: int
    threads_per_core: int
    """CPUs that the scheduler counts per core."""
    memory: int
    """MiB."""
    gpus: int
    gpu: str | None
    """The scheduler's name for the type of its GPUs; None without GPUs or type."""
    options: Mapping[str, str]
    """Options that request its GPUs."""
    nodes: tuple[str, ...]
    usable: int
    """Number of nodes that take jobs now."""
    origin: str
    """The source of these facts, in words."""


@dataclass(frozen=True)
class QueueFacts:
    """A queue of the cluster, such as a partition with a QoS."""

    name: str
    """Its name in the scheduler."""
    key: str
    """Its name as a key of a site's file."""
    kinds: tuple[str, ...]
    options: Mapping[str, str]
    nodes: int
    """Maximum number of nodes of a job."""
    minutes: float | None
    """Maximum time of a job in minutes; None: no limit."""
    aside: str
    """Reason why only jobs that name this queue should use it; empty if all may."""
    gpus_only: bool
    origin: str
    reserve: int = 0
    """Strength of the reason to try other queues first; 0: none."""


@dataclass(frozen=True)
class ClusterFacts:
    """A cluster as its scheduler describes it."""

    name: str
    """Empty if unknown."""
    kinds: tuple[NodeKind, ...]
    queues: tuple[QueueFacts, ...]
    """In the order of preference."""
    account: str | None
    account_required: bool
    account_origin: str
    unknown: tuple[str, ...]
    """Facts that could not be found, with reasons."""
    notes: tuple[str, ...]
    """Facts without a key in a site's file."""


@dataclass(frozen=True)
class LookJob:
    """A small job that starts a command once on each of its nodes."""

    options: Mapping[str, str | None]
    """Options of its script by the scheduler's names; None: an option without a value."""
    nodes: int
    most: int
    """Maximum number of nodes, if they are free."""
    folder: Path
    """Its working folder, in which it writes its output, `job.log`."""
    command: tuple[str, ...] = ()
    """The command; ARGOSY_NODE_VARIABLE and ARGOSY_NODES_VARIABLE name the variables of the node's index
    and of the number of nodes."""


class Surveyor(Protocol):
    """Queries a cluster; each query has a time limit."""

    def survey(self, account: str | None, say: Callable[[str], None]) -> ClusterFacts:
        """Query all facts; `account` is the account to charge, if the user names one.

        Raises:
            ArgosyError: if the scheduler is missing here, or does not answer.
        """

    def cluster_name(self) -> str:
        """Return the scheduler's name of the cluster.

        Raises:
            ArgosyError: as `survey`.
        """

    def look_options(
        self, kind: NodeKind, queue: QueueFacts, account: str | None, nodes: int
    ) -> Mapping[str, str | None]:
        """Return the options of a job that looks at nodes of a kind."""

    def submit(self, job: LookJob) -> str:
        """Submit a job and return its id. Raises SchedulerError; BusyError: try again later."""

    def status(self, job_id: str) -> Status:
        """Return a job's status, with its reason for waiting. Raises SchedulerError without an answer."""

    def cancel(self, job_id: str) -> None:
        """Cancel a job. Raises SchedulerError without an answer."""


FOLDER = Path(__file__).parent


class BatchSystem(Protocol):
    """A scheduler's package."""

    NAME: str
    """Its name in messages."""
    HAS_QUEUE: bool
    """Whether jobs wait for nodes of a cluster; otherwise they are processes of this machine."""
    SHARES_JOBS: bool
    """Whether a job may hold several runs (`resources.same_allocation`)."""
    TEMPLATES: Path | None
    """The folder of its `job.sbatch.j2`; None: slurm/templates of the project."""
    LOG_WORDS: Path | None
    """The program that reads its log and its launcher's messages (runtime/log_words.py)."""

    def make_scheduler(self, poll_s: float) -> Scheduler:
        """Return the scheduler that submits and polls; `poll_s`: seconds between two polls of a queue."""

    def script_options(self, job: JobRequest) -> Mapping[str, str | None]:
        """Return the options of a job's script in order, by name; None: an option without a value.

        Raises:
            ArgosyError: if the site's file is incomplete, or the job's folder cannot be used there.
        """

    def directive(self, name: str, value: str | None) -> str:
        """Return the script's line for an option."""

    def check_scripts(self, scripts: Iterable[Path], say: Say) -> Sequence[Accepted]:
        """Check that the scheduler would accept these scripts, before any is submitted.

        Raises:
            ArgosyError: naming the key to change.
        """

    def list_jobs(self) -> Callable[[], Sequence[Listed]] | None:
        """Return a function that lists the user's jobs or raises SchedulerError; None without a queue."""

    def make_surveyor(self) -> Surveyor | None:
        """Return the surveyor of the cluster; None if there is none."""

    def explain(self, reason: str, *, alone: bool) -> Reason:
        """Return the meaning of a queue's reason; `alone`: the user has no other job."""


def find_batch_system(name: str, named_in: str = "") -> BatchSystem:
    """Return a scheduler's package by name; `named_in` is the site's file for messages.

    Raises:
        ArgosyError: if there is none.
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

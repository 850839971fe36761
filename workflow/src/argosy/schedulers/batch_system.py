"""What a scheduler's folder has to have, and how a site's scheduler is found.

A scheduler is a Python package whose `__init__.py` has the names of `BatchSystem`: one of this folder, or
`argosy_scheduler_<name>`, which anybody can install beside Argosy (docs/schedulers.md).
"""

import importlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from argosy.errors import ArgosyError
from argosy.schedulers.base import Accepted, Listed, Reason, Say, Scheduler
from argosy.schedulers.cluster_facts import Surveyor
from argosy.schedulers.job_request import JobRequest

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
        f"there are {', '.join(_brought())}, and packages named "
        "argosy_scheduler_<name> that are installed beside Argosy (docs/schedulers.md)",
    )


def _is_package(name: str) -> bool:
    spec = find_spec(name)
    return spec is not None and spec.submodule_search_locations is not None


def _brought() -> list[str]:
    """Return the schedulers of this folder."""
    return sorted(path.parent.name for path in FOLDER.glob("*/__init__.py"))

"""The scheduler `slurm`, used through its commands only."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from argosy.schedulers.base import Listed, Scheduler
from argosy.schedulers.batch_system import Surveyor
from argosy.schedulers.slurm.commands import Patience
from argosy.schedulers.slurm.options import directive, script_options
from argosy.schedulers.slurm.preflight import check_scripts
from argosy.schedulers.slurm.queue import explain
from argosy.schedulers.slurm.queue import list_jobs as ask_queue
from argosy.schedulers.slurm.scheduler import SlurmScheduler
from argosy.schedulers.slurm.submission import check_variables
from argosy.schedulers.slurm.surveyor import SlurmSurveyor

__all__ = [
    "check_scripts",
    "directive",
    "explain",
    "list_jobs",
    "make_scheduler",
    "make_surveyor",
    "script_options",
]

NAME = "Slurm"
HAS_QUEUE = True
SHARES_JOBS = True
TEMPLATES: Path | None = None
LOG_WORDS: Path | None = Path(__file__).with_name("log_words.py")


def make_scheduler(poll_s: float) -> Scheduler:
    """Return a scheduler that uses sbatch and squeue. Raises ArgosyError: `check_variables`."""
    check_variables()
    return SlurmScheduler(poll_s)


def make_surveyor() -> Surveyor:
    """Return a surveyor that queries Slurm's commands. Raises ArgosyError: `check_variables`."""
    check_variables()
    return SlurmSurveyor()


def list_jobs() -> Callable[[], Sequence[Listed]]:
    """Return a function that queries squeue; its time limit doubles after each late answer."""
    return partial(ask_queue, Patience())

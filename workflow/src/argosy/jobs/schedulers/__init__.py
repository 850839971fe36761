"""Who runs batch scripts: this machine or Slurm."""

from argosy.jobs.schedulers.base import Scheduler
from argosy.jobs.schedulers.local import LocalScheduler
from argosy.jobs.schedulers.slurm import SlurmScheduler


def make_scheduler(name: str, poll_s: float) -> Scheduler:
    """The scheduler that a site names; `poll_s` is how often to look at a cluster's queue."""
    return SlurmScheduler(poll_s) if name == "slurm" else LocalScheduler()

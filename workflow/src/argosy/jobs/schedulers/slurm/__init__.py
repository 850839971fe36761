"""Runs batch scripts by Slurm, which is met through its commands alone."""

from argosy.jobs.schedulers.slurm.scheduler import SlurmScheduler

__all__ = ["SlurmScheduler"]

"""Which of a run's jobs is the newest: several may have been submitted, by a driver and by hand."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from argosy.jobs.allocations import folder_below
from argosy.jobs.schedulers.base import State, job_name
from argosy.jobs.schedulers.slurm.queue import Listed
from argosy.live.folders import RunFiles
from argosy.live.queue import Answer
from argosy.live.tail import number


@dataclass(frozen=True)
class Job:
    """As the queue has it, as a driver noted it, or only by its traces."""

    job_id: str
    incarnation: str | None
    """Its newest execution; None before it has left anything."""
    began: float = 0.0
    """When it was submitted or, if that is not known, when it started (unix)."""
    listed: Listed | None = None
    entry: Mapping[str, Any] | None = None

    @property
    def shared(self) -> bool:
        """Whether runs share it: it is then not over when this run is, nor is this run when it begins."""
        return self.entry is not None and "allocation" in self.entry

    @property
    def waits(self) -> bool:
        """Whether it has not started, or has to start again, or this run's turn in it is to come."""
        if self.listed and self.shared:
            return self.listed.state.active and self.incarnation is None
        if self.listed:
            pending = self.listed.state in (State.PENDING, State.REQUEUED)
            return pending and self.incarnation is None
        return self.incarnation is None

    @property
    def label(self) -> str:
        """The job's number, with that of its restart, if it was restarted."""
        if self.listed:
            return label(f"{self.job_id}.{self.listed.restarts}")
        return label(self.incarnation or f"{self.job_id}.0")


def label(incarnation: str) -> str:
    """An execution's name; of a job that was never restarted, the job's number alone."""
    return incarnation.removesuffix(".0")


def newest_job(run: RunFiles, answer: Answer | None) -> Job | None:
    """The job that counts: the one in the queue, else the last one submitted or started."""
    entry = run.jobs[-1] if run.jobs else None
    submitted = (number(entry.get("submitted")) or 0.0) if entry else 0.0
    listed = _listed(run, entry, answer) if answer else []
    if listed and answer and submitted <= (answer.asked or 0.0):
        return _of_queue(run, max(listed, key=_place))
    started = run.started_last
    if started and (entry is None or started.unix > submitted):
        noted = (each for each in run.jobs if str(each.get("job_id")) == started.job_id)
        return Job(started.job_id, started.name, started.unix, entry=next(noted, None))
    if entry is None:
        return None
    job_id = str(entry.get("job_id"))
    return Job(job_id, run.incarnation_of(job_id), submitted, entry=entry)


def _listed(run: RunFiles, entry: Mapping[str, Any] | None, answer: Answer) -> list[Listed]:
    """The jobs of the run that are in the queue: its own, and the one that it was put into with others."""
    own = answer.jobs.get((run.path, job_name(run.path)), ())
    folder = folder_below(run.site, entry) if entry else None
    shared = answer.jobs.get((folder, job_name(folder)), ()) if folder and entry else ()
    return [*own, *(job for job in shared if entry and job.job_id == str(entry.get("job_id")))]


def _of_queue(run: RunFiles, listed: Listed) -> Job:
    """Of a job that is to run again, the execution that is to come counts, not the last one.

    A run that has completed in a job that it shares does not run again with it.
    """
    noted = (each for each in run.jobs if str(each.get("job_id")) == listed.job_id)
    job = Job(listed.job_id, f"{listed.job_id}.{listed.restarts}", 0.0, listed, next(noted, None))
    if job.incarnation in run.incarnations:
        return job
    last = run.incarnation_of(listed.job_id)
    has_completed = job.shared and (run.verdict(last) or {}).get("state") == "completed"
    return replace(job, incarnation=last if has_completed or not listed.state.active else None)


def _place(job: Listed) -> tuple[bool, int]:
    number = job.job_id.partition("_")[0]
    return job.state.active, int(number) if number.isdigit() else 0

"""Which of a run's jobs is the newest: several may have been submitted, by a driver and by hand."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
    def waits(self) -> bool:
        """Whether it has not started, or has to start again."""
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
    name = job_name(run.path)
    listed = list(answer.jobs.get((run.path, name), ())) if answer else []
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


def _of_queue(run: RunFiles, listed: Listed) -> Job:
    """Of a job that is to run again, the execution that is to come counts, not the last one."""
    incarnation: str | None = f"{listed.job_id}.{listed.restarts}"
    if incarnation not in run.incarnations:
        incarnation = None if listed.state.active else run.incarnation_of(listed.job_id)
    return Job(listed.job_id, incarnation, listed=listed)


def _place(job: Listed) -> tuple[bool, int]:
    number = job.job_id.partition("_")[0]
    return job.state.active, int(number) if number.isdigit() else 0

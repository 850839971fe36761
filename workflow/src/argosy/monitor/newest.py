"""Which of a run's jobs is the newest: several may have been submitted, by a driver and by hand."""

from dataclasses import dataclass, replace

from argosy.monitor.queue import Answer
from argosy.run_folder.attempts import job_of
from argosy.run_folder.folder import RunFolder, allocation_folder
from argosy.run_folder.models import Job
from argosy.schedulers.base import Listed, State, job_name


@dataclass(frozen=True)
class NewestJob:
    """As the queue has it, as a driver noted it, or only by its traces."""

    job_id: str
    attempt: str | None
    """Its newest attempt; None before it has left anything."""
    began: float = 0.0
    """When it was submitted or, if that is not known, when it started (unix)."""
    listed: Listed | None = None
    noted: Job | None = None

    @property
    def shared(self) -> bool:
        """Whether runs share it: it is then not over when this run is, nor is this run when it begins."""
        return self.noted is not None and self.noted.allocation is not None

    @property
    def waits(self) -> bool:
        """Whether it has not started, or has to start again, or this run's turn in it is to come."""
        if self.listed and self.shared:
            return self.listed.state.active and self.attempt is None
        if self.listed:
            pending = self.listed.state in (State.PENDING, State.REQUEUED)
            return pending and self.attempt is None
        return self.attempt is None

    @property
    def label(self) -> str:
        """The job's number, with that of its restart, if it was restarted."""
        if self.listed:
            return label(f"{self.job_id}.{self.listed.restarts}")
        return label(self.attempt or f"{self.job_id}.0")


def label(attempt: str) -> str:
    """Return an attempt's name; of a job that was never restarted, the job's number alone."""
    return attempt.removesuffix(".0")


def newest_job(run: RunFolder, answer: Answer | None) -> NewestJob | None:
    """Return the job that counts: the one in the queue, else the last one submitted or started."""
    noted = run.jobs[-1] if run.jobs else None
    submitted = noted.submitted if noted else 0.0
    listed = _listed(run, noted, answer) if answer else []
    if listed and answer and submitted <= (answer.asked or 0.0):
        return _of_queue(run, max(listed, key=_place))
    started = run.last_started
    if started and (noted is None or run.claimed_at(started) > submitted):
        job_id = job_of(started)
        return NewestJob(job_id, started, run.claimed_at(started), noted=run.job(job_id))
    if noted is None:
        return None
    return NewestJob(noted.job_id, run.newest_attempt(noted.job_id), submitted, noted=noted)


def _listed(run: RunFolder, noted: Job | None, answer: Answer) -> list[Listed]:
    """Return the run's jobs in the queue: its own, and the one that it was put into with others."""
    own = answer.jobs.get((run.path, job_name(run.path)), ())
    folder = allocation_folder(run.site, noted.allocation) if noted else None
    shared = answer.jobs.get((folder, job_name(folder)), ()) if folder else ()
    return [*own, *(job for job in shared if noted and job.job_id == noted.job_id)]


def _of_queue(run: RunFolder, listed: Listed) -> NewestJob:
    """Return the attempt that counts: of a job that is to run again the one that is to come.

    A run that has completed in a job that it shares does not run again with it.
    """
    attempt = f"{listed.job_id}.{listed.restarts}"
    job = NewestJob(listed.job_id, attempt, 0.0, listed, run.job(listed.job_id))
    if attempt in run.attempts:
        return job
    last = run.newest_attempt(listed.job_id)
    verdict = run.verdict(last)
    has_completed = job.shared and verdict is not None and verdict.state == "completed"
    return replace(job, attempt=last if has_completed or not listed.state.active else None)


def _place(job: Listed) -> tuple[bool, int]:
    number = job.job_id.partition("_")[0]
    return job.state.active, int(number) if number.isdigit() else 0

"""Finds jobs of runs in the queue and on this machine, and the newest job of a run."""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import psutil

from argosy.run_folder.folder import RunFolder, allocation_folder, by_number
from argosy.run_folder.models import Job
from argosy.runtime.contract.layout import first_attempt, job_of
from argosy.schedulers.base import Listed, SchedulerError, State, job_name

SAME_PROCESS_S = 1.0
"""Tolerance in seconds of a process's recorded start time, which identifies it: process ids are reused."""


class Machine:
    """A snapshot of this machine's processes."""

    def runs(self, job: Job | None, attempt: str) -> bool:
        """Return whether the job's script runs, or processes of a killed script."""
        return (job is not None and _is_alive(job)) or attempt in self._attempts_alive

    @cached_property
    def _attempts_alive(self) -> frozenset[str]:
        """Attempts with living processes: each inherits the attempt's name from its script."""
        found = set()
        for process in psutil.process_iter():
            try:
                if process.uids().real != os.getuid():
                    continue
                found.add(process.environ().get("ARGOSY_ATTEMPT", ""))
            except psutil.Error:
                continue
        return frozenset(found - {""})


def _is_alive(job: Job) -> bool:
    if job.pid is None or job.process_created is None:
        return False
    try:
        process = psutil.Process(job.pid)
        same = abs(process.create_time() - job.process_created) <= SAME_PROCESS_S
        return same and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, ValueError, OverflowError):
        return False


EASE = 20.0
"""Ratio of the pause before the next query to the time of the last answer."""


@dataclass(frozen=True)
class Answer:
    """The scheduler's last answer, and the start of its silence since."""

    jobs: Mapping[tuple[Path, str], Sequence[Listed]] = field(default_factory=dict)
    """Jobs by folder and name."""
    asked: float | None = None
    """Unix time of the query; jobs submitted later are missing. None: never answered."""
    silent_since: float | None = None
    problem: str = ""

    @property
    def fresh(self) -> bool:
        """Whether a job that is missing in `jobs` is not in the queue."""
        return self.asked is not None and self.silent_since is None


class Queue:
    """Queries the user's jobs in a thread, one call at a time."""

    def __init__(self, ask: Callable[[], Sequence[Listed]]) -> None:
        self._ask = ask
        self._answer = Answer()
        self._call = threading.Thread()
        self._called = 0.0
        self._not_before = 0.0

    def look(self, patience_s: float) -> Answer:
        """Query the jobs; after `patience_s` seconds without an answer, return the last known one."""
        if not self._call.is_alive() and time.monotonic() >= self._not_before:
            # A daemon thread does not delay the end of the process.
            self._called = time.time()
            self._call = threading.Thread(target=self._query, daemon=True)
            self._call.start()
        if self._call.ident:
            self._call.join(patience_s)
        if self._call.is_alive():
            return self._silence("no answer yet")
        return self._answer

    def _query(self) -> None:
        began = time.monotonic()
        try:
            self._answer = Answer(_by_run(self._ask()), self._called)
        except SchedulerError as problem:
            self._answer = self._silence(str(problem))
        self._not_before = time.monotonic() + EASE * (time.monotonic() - began)

    def _silence(self, problem: str) -> Answer:
        since = self._answer.silent_since or self._called
        return replace(self._answer, silent_since=since, problem=problem)


def _by_run(jobs: Sequence[Listed]) -> dict[tuple[Path, str], list[Listed]]:
    found: dict[tuple[Path, str], list[Listed]] = {}
    for job in jobs:
        # The path to a home folder may contain links.
        folder = Path(os.path.realpath(job.work_dir))
        found.setdefault((folder, job.name), []).append(job)
    return found


@dataclass(frozen=True)
class NewestJob:
    """A job found in the queue, in a driver's note, or only by its files."""

    job_id: str
    attempt: str | None
    """Its newest attempt; None before it has written a file."""
    began: float = 0.0
    """Unix time of its submission or, if unknown, of its start."""
    listed: Listed | None = None
    noted: Job | None = None

    @property
    def shared(self) -> bool:
        """Whether several runs share the job; it then outlasts each of them."""
        return self.noted is not None and self.noted.allocation is not None

    @property
    def waits(self) -> bool:
        """Whether the job is pending or requeued, or runs other runs before this one."""
        if self.listed and self.shared:
            return self.listed.state.active and self.attempt is None
        if self.listed:
            pending = self.listed.state in (State.PENDING, State.REQUEUED)
            return pending and self.attempt is None
        return self.attempt is None

    @property
    def label(self) -> str:
        """The job id, followed by the restart count if it was restarted."""
        start = f"{self.job_id}.{self.listed.restarts if self.listed else 0}"
        is_old = self.listed and self.attempt and first_attempt(self.attempt) != start
        return label(start if is_old or not self.attempt else self.attempt)


def job_logs(run: RunFolder, job: NewestJob | None) -> list[Path]:
    """Return where a job may have a log: its own, then the scheduler's; without a job, the last one's."""
    if job is None:
        return sorted(run.scheduler_logs, key=lambda path: by_number(path.name))[-1:]
    own = [run.logs(job.attempt) / "job.log"] if job.attempt else []
    return [*own, run.scheduler_log(job.job_id)]


def label(attempt: str) -> str:
    """Return an attempt's name, without a restart count of 0."""
    return attempt.removesuffix(".0")


def newest_job(run: RunFolder, answer: Answer | None) -> NewestJob | None:
    """Return a run's current job: the job in the queue, else the last submitted or started job."""
    noted = run.jobs[-1] if run.jobs else None
    submitted = noted.submitted if noted else 0.0
    listed = _jobs_in_queue(run, noted, answer) if answer else []
    if listed and answer and submitted <= (answer.asked or 0.0):
        return _of_queue(run, max(listed, key=_activity_and_number))
    started = run.last_started
    if started and (noted is None or run.claimed_at(started) > submitted):
        job_id = job_of(started)
        return NewestJob(job_id, started, run.claimed_at(started), noted=run.job(job_id))
    if noted is None:
        return None
    return NewestJob(noted.job_id, run.newest_attempt(noted.job_id), submitted, noted=noted)


def _jobs_in_queue(run: RunFolder, noted: Job | None, answer: Answer) -> list[Listed]:
    """Return the run's jobs in the queue, including a job shared with other runs."""
    own = answer.jobs.get((run.path, job_name(run.path)), ())
    folder = allocation_folder(run.site, noted.allocation) if noted else None
    shared = answer.jobs.get((folder, job_name(folder)), ()) if folder else ()
    return [*own, *(job for job in shared if noted and job.job_id == noted.job_id)]


def _of_queue(run: RunFolder, listed: Listed) -> NewestJob:
    """Return a job of the queue with its current attempt; for a requeued job, the next one.

    A requeue of a shared job does not run a completed run again.
    """
    attempt = run.newest_of_start(listed.job_id, listed.restarts)
    job = NewestJob(listed.job_id, attempt, 0.0, listed, run.job(listed.job_id))
    if attempt:
        return job
    last = run.newest_attempt(listed.job_id)
    verdict = run.verdict(last)
    has_completed = job.shared and verdict is not None and verdict.state == "completed"
    return replace(job, attempt=last if has_completed or not listed.state.active else None)


def _activity_and_number(job: Listed) -> tuple[bool, int]:
    number = job.job_id.partition("_")[0]
    return job.state.active, int(number) if number.isdigit() else 0

"""Submits, polls and cancels jobs of a Slurm cluster."""

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from argosy.run_folder.folder import SCRIPT, RunFolder
from argosy.run_folder.job_file import add_job, newest_job, read_jobs, script_digest
from argosy.run_folder.models import Job
from argosy.schedulers.base import Listed, State, Status, job_name
from argosy.schedulers.missing_images import missing_image
from argosy.schedulers.slurm.bad_nodes import Avoidance
from argosy.schedulers.slurm.commands import (
    LateError,
    NoAnswerError,
    Patience,
    SlurmError,
    call,
)
from argosy.schedulers.slurm.queue import Accounting, list_jobs
from argosy.schedulers.slurm.queue import explain as why_it_waits
from argosy.schedulers.slurm.refusals import explain, wait_for
from argosy.schedulers.slurm.shared_jobs import (
    attach_shared,
    ending_of,
    note,
    outcome_of,
    repeat_of,
    split_shared,
    status_of_run,
    submit_shared,
)
from argosy.schedulers.slurm.submission import LostJobs, find_new, script_of, submit
from argosy_common.reading import read_text, site_of

PARALLEL_SUBMISSIONS = 4
LONGEST_PAUSE_S = 60.0
PATIENCE = 20.0
"""Ratio of the pause before the next query to the time of the last answer."""

ANSWERS = 3
"""Number of recent answers of which the fastest counts: one slow answer may be due to this machine."""

OFTEN_A_PASSAGE = (State.NODE_FAIL, State.PREEMPTED, State.GONE)
"""States that a job may pass through during a requeue; they count if two polls see them."""


class SlurmScheduler:
    """Polls all jobs by one call of squeue.

    Args:
        poll_s: seconds between two polls while slurmctld answers quickly.
    """

    cancel_command = "scancel"
    avoids_bad_nodes = True

    def __init__(self, poll_s: float) -> None:
        self._poll_s = poll_s
        self._accounting = Accounting()
        self._patience = Patience()
        self._pool = ThreadPoolExecutor(PARALLEL_SUBMISSIONS)
        self._is_over = False
        self._waiting: dict[Path, str] = {}
        self._jobs: dict[Path, str] = {}
        self._last: dict[Path, Status] = {}
        self._suspected: dict[Path, Status] = {}
        self._lost = LostJobs()
        self._seen: set[str] = set()
        self._avoidance = Avoidance(self._patience)
        self._silent_since: float | None = None
        self._took: deque[float] = deque(maxlen=ANSWERS)
        self.pause_s = poll_s
        self.trouble: str | None = None

    def submit(self, run_dirs: Iterable[Path]) -> None:
        """Attach to existing jobs by folder and name, and submit the other runs in parallel."""
        self._waiting.update(dict.fromkeys(run_dirs, ""))
        listed = self._ask_queue()
        if listed is not None:
            self._submit_waiting(listed)

    def poll(self) -> Mapping[Path, Status]:
        """Return the status of all runs; without an answer, the last known one."""
        if not self._waiting and not self._jobs:
            return self._give_back({})
        listed = self._ask_queue()
        if listed is None:
            return {**self._unsubmitted(), **{run: self._last[run] for run in self._jobs}}
        if self._waiting:
            self._submit_waiting(listed)
        return self._give_back(self._look_up(listed))

    def cancel(self) -> None:
        """Cancel all jobs by one scancel, including jobs whose id was lost.

        Submissions that have begun end first, also those of another thread, since their jobs count.
        """
        self._is_over = True
        self._pool.shutdown(cancel_futures=True)
        self._waiting.clear()
        lost = self._lost.all_of(list_jobs(self._patience)) if self._lost else []
        # Runs may share a job, so ids may repeat.
        if ids := dict.fromkeys([*filter(None, self._jobs.values()), *lost]):
            call("scancel", *ids)

    # ---- asking

    def _ask_queue(self) -> list[Listed] | None:
        """Return the queue, or None if slurmctld does not answer."""
        began = time.monotonic()
        try:
            listed = list_jobs(self._patience)
        except SlurmError as problem:
            self._silent_since = self._silent_since or began
            self.pause_s = min(LONGEST_PAUSE_S, max(self._poll_s, 2 * self.pause_s))
            self.trouble = self._describe_silence(self._silent_since, problem)
            return None
        self._silent_since, self.trouble = None, None
        self._took.append(time.monotonic() - began)
        self.pause_s = min(LONGEST_PAUSE_S, max(self._poll_s, PATIENCE * min(self._took)))
        return listed

    def _describe_silence(self, since: float, problem: SlurmError) -> str:
        """Describe the silence in a line: its length, its cause, and the next attempt."""
        again = f"asking again in {self.pause_s:.0f} s"
        if isinstance(problem, LateError):
            again += f", with {self._patience.limit_s:.0f} s for the answer"
        kept = "; nothing is submitted until it answers" if self._waiting else ""
        silent = time.monotonic() - since
        return f"Slurm has not answered for {silent:.0f} s ({problem}); {again}{kept}"

    def _unsubmitted(self) -> dict[Path, Status]:
        return {run: Status(State.WAITING, reason=why) for run, why in self._waiting.items()}

    # ---- submitting

    def _submit_waiting(self, listed: list[Listed]) -> None:
        """Submit the waiting runs: repeats one after the other, the runs of a repeat in parallel.

        `listed` is a fresh queue, so that no run gets two jobs.
        """
        alone, shared = split_shared([*self._waiting])
        by_repeat: defaultdict[int, list[Callable[[], None]]] = defaultdict(list)
        for run in alone:
            by_repeat[repeat_of(run)].append(partial(self._submit_one, run, listed))
        for folder, runs in shared.items():
            together = partial(self._submit_shared, folder, runs, listed)
            by_repeat[repeat_of(runs[0])].append(together)
        try:
            for _, block in sorted(by_repeat.items()):
                for each in [self._pool.submit(step) for step in block]:
                    each.result()
        except (CancelledError, RuntimeError):
            # Another thread cancels the jobs.
            if not self._is_over:
                raise

    def _submit_one(self, run_dir: Path, listed: list[Listed]) -> None:
        try:
            if job := self._lost.find(run_dir, listed):
                _note_job(run_dir, job.job_id)
                status: Status | None = _status(job)
            else:
                status = _attach(run_dir, listed, self._patience)
            if status is None:
                submit_it = partial(_submit, run_dir, self._avoidance.excluded(run_dir))
                status = self._lost.guarded(run_dir, listed, submit_it)
        except SlurmError as problem:
            self._not_submitted(run_dir, [run_dir], problem, listed)
        else:
            self._take_over(run_dir, status)

    def _submit_shared(self, folder: Path, run_dirs: list[Path], listed: list[Listed]) -> None:
        """Attach to a shared job of an earlier driver, and submit a job for the remaining runs."""
        others = [job for job in _active(folder, listed) if job.job_id not in self._jobs.values()]
        rest = []
        try:
            if (lost := self._lost.find(folder, listed)) and not lost.state.active:
                note(folder, run_dirs, lost.job_id)
                for run_dir in run_dirs:
                    self._take_over(run_dir, _status(lost))
                return
            found = attach_shared(folder, run_dirs, others, self._patience)
            for run_dir in run_dirs:
                if job := found.get(run_dir):
                    self._take_over(run_dir, _status(job))
                elif problem := missing_image(run_dir):
                    self._take_over(run_dir, Status(State.REFUSED, reason=problem))
                else:
                    rest.append(run_dir)
            if rest:
                submit_it = partial(submit_shared, folder, rest, self._avoidance.excluded)
                status = self._lost.guarded(folder, listed, submit_it)
                for run_dir in rest:
                    self._take_over(run_dir, status)
        except SlurmError as problem:
            waiting = [each for each in run_dirs if each in self._waiting]
            self._not_submitted(folder, waiting, problem, listed)

    def _not_submitted(
        self, folder: Path, run_dirs: list[Path], problem: SlurmError, listed: list[Listed]
    ) -> None:
        """Keep these runs, whose script is in `folder`, for the next poll, or refuse them."""
        said = str(problem)
        has_jobs = bool(self._jobs) or any(job.state.active for job in listed)
        wait = said if isinstance(problem, NoAnswerError) else wait_for(said, has_jobs=has_jobs)
        if wait:
            self._waiting.update(dict.fromkeys(run_dirs, wait))
            return
        for run_dir in run_dirs:
            self._take_over(run_dir, Status(State.REFUSED, reason=explain(folder, said)))

    def _take_over(self, run_dir: Path, status: Status) -> None:
        del self._waiting[run_dir]
        self._last[run_dir] = status
        self._jobs[run_dir] = status.job_id or ""

    # ---- looking

    def _look_up(self, listed: list[Listed]) -> dict[Path, Status]:
        by_id = {job.job_id: job for job in listed}
        self._seen.update(by_id.keys() & {*self._jobs.values()})
        forgotten = {
            run: job_id for run, job_id in self._jobs.items() if job_id and job_id not in by_id
        }
        accounts = self._accounting.states(forgotten.values())
        statuses = {}
        for run, job_id in self._jobs.items():
            if not job_id or not self._last[run].state.active:
                statuses[run] = self._last[run]
            elif job_id in by_id:
                statuses[run] = _of_run(run, by_id[job_id])
            elif job_id not in {*accounts, *self._seen} and (job := _unnoted(run, listed)):
                _note_job(run, job.job_id)
                self._jobs[run] = job.job_id
                statuses[run] = _of_run(run, job)
            else:
                state = _of_forgotten(run, job_id, accounts.get(job_id, State.GONE))
                statuses[run] = Status(state, job_id, self._last[run].restarts)
        return statuses

    def _give_back(self, statuses: dict[Path, Status]) -> Mapping[Path, Status]:
        believed = {run: self._believe(run, status) for run, status in statuses.items()}
        for run, status in believed.items():
            nodes = status.nodes or self._last[run].nodes
            self._last[run] = status
            if not status.state.active:
                if self.avoids_bad_nodes:
                    self._avoidance.note(run, replace(status, nodes=nodes))
                for known in (self._jobs, self._last, self._suspected):
                    known.pop(run, None)
        pending = [run for run in self._jobs if self._last[run].state is State.PENDING]
        self._avoidance.act({self._jobs[run]: _script_folder(run) for run in pending})
        return {**self._unsubmitted(), **believed}

    def _believe(self, run: Path, status: Status) -> Status:
        if status.state not in OFTEN_A_PASSAGE or self._suspected.get(run) == status:
            self._suspected.pop(run, None)
            return status
        self._suspected[run] = status
        return self._last[run]


def _active(folder: Path, listed: Iterable[Listed]) -> list[Listed]:
    """Return the active jobs of a folder, including completing ones."""
    return [job for job in listed if job.state.active and job.work_dir == folder]


def _attach(run_dir: Path, listed: Iterable[Listed], patience: Patience) -> Status | None:
    """Return the run's existing job if it runs the current script; cancel others."""
    script = read_text(run_dir / SCRIPT, site_of(run_dir))
    name = job_name(run_dir)
    found = None
    for job in _active(run_dir, listed):
        if job.name != name or ending_of(run_dir, job):
            continue
        if found is None and script_of(job.job_id, run_dir, patience) == script:
            found = job
        else:
            call("scancel", job.job_id)
    return _status(found) if found else None


def _submit(run_dir: Path, exclude: str) -> Status:
    if problem := missing_image(run_dir):
        return Status(State.REFUSED, reason=problem)
    (run_dir / "logs").mkdir(mode=0o700, exist_ok=True)
    job_id = submit(run_dir / SCRIPT, run_dir, exclude)
    _note_job(run_dir, job_id)
    return Status(State.PENDING, job_id)


def _script_folder(run_dir: Path) -> Path:
    """Return the folder of the script of a run's job, which runs may share."""
    job = newest_job(run_dir)
    return site_of(run_dir) / job.allocation if job and job.allocation else run_dir


def _note_job(run_dir: Path, job_id: str) -> None:
    """Record a run's job in its job.json."""
    digest = script_digest(run_dir / SCRIPT)
    job = Job(scheduler="slurm", job_id=job_id, submitted=time.time(), script_sha256=digest)
    add_job(run_dir, job)


def _unnoted(run_dir: Path, listed: Iterable[Listed]) -> Listed | None:
    """Return the run's job that job.json lacks because sbatch printed another id."""
    noted = [job.job_id for job in read_jobs(run_dir)]
    return find_new(run_dir, job_name(run_dir), noted, listed)


def _of_run(run_dir: Path, job: Listed) -> Status:
    if job.state.active and job.name != job_name(run_dir):
        return status_of_run(run_dir, job) or _status(job)
    return ending_of(run_dir, job) or _status(job)


def _of_forgotten(run_dir: Path, job_id: str, said: State) -> State:
    """Return the final state of a job that slurmctld no longer lists, by its verdict or else by sacct.

    Accounting may lag or stay wrong: a job that sacct reports as active is gone.
    """
    run = RunFolder(run_dir)
    outcome = outcome_of(run, run.newest_attempt(job_id))
    return outcome or (State.GONE if said.active else said)


def _status(job: Listed) -> Status:
    waits = job.state in (State.PENDING, State.REQUEUED)
    found = why_it_waits(job.reason, alone=job.alone)
    stuck = (found.meaning or job.reason) if waits and found.stuck else ""
    return Status(job.state, job.job_id, job.restarts, job.reason, job.nodes, stuck)

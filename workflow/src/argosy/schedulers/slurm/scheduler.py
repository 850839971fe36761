"""Submits, polls and cancels jobs of a Slurm cluster."""

import time
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from argosy.run_folder.folder import RunFolder
from argosy.schedulers.base import Listed, State, Status, job_name
from argosy.schedulers.missing_images import missing_image
from argosy.schedulers.slurm.bad_nodes import BadNodes
from argosy.schedulers.slurm.commands import (
    LateError,
    NoAnswerError,
    Patience,
    SlurmError,
    call,
)
from argosy.schedulers.slurm.queue import Accounting, list_jobs
from argosy.schedulers.slurm.refusals import explain, wait_for
from argosy.schedulers.slurm.run_jobs import (
    attach,
    job_status,
    jobs_of,
    note_job,
    noted_ids,
    outcome_of,
    repeat_of,
    script_folder,
    status_of,
    submit_job,
)
from argosy.schedulers.slurm.submission import LostJobs, find_new

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
        self._last: dict[Path, Status] = {}
        self._suspected: dict[Path, Status] = {}
        self._lost = LostJobs()
        self._seen: set[str] = set()
        self._bad_nodes = BadNodes(self._patience)
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
        if not self._waiting and not self._last:
            return self._give_back({})
        listed = self._ask_queue()
        if listed is None:
            return {**self._unsubmitted(), **self._last}
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
        if ids := dict.fromkeys([*filter(None, self._ids()), *lost]):
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
        by_repeat: defaultdict[int, list[partial[None]]] = defaultdict(list)
        for folder, runs in jobs_of([*self._waiting]).items():
            step = partial(self._submit_job, folder, runs, listed)
            by_repeat[repeat_of(runs[0])].append(step)
        try:
            for _, block in sorted(by_repeat.items()):
                for each in [self._pool.submit(step) for step in block]:
                    each.result()
        except (CancelledError, RuntimeError):
            # Another thread cancels the jobs.
            if not self._is_over:
                raise

    def _submit_job(self, folder: Path, run_dirs: list[Path], listed: list[Listed]) -> None:
        """Attach to jobs of an earlier driver, and submit one job for the remaining runs."""
        rest = []
        try:
            found = self._existing(folder, run_dirs, listed)
            for run_dir in run_dirs:
                if job := found.get(run_dir):
                    self._take_over(run_dir, job_status(job))
                elif problem := missing_image(run_dir):
                    self._take_over(run_dir, Status(State.REFUSED, reason=problem))
                else:
                    rest.append(run_dir)
            if rest:
                submit_it = partial(submit_job, folder, rest, self._bad_nodes.excluded)
                status = self._lost.guarded(folder, rest, listed, submit_it)
                for run_dir in rest:
                    self._take_over(run_dir, status)
        except SlurmError as problem:
            waiting = [each for each in run_dirs if each in self._waiting]
            self._not_submitted(folder, waiting, problem, listed)

    def _existing(
        self, folder: Path, run_dirs: list[Path], listed: list[Listed]
    ) -> dict[Path, Listed]:
        """Return existing jobs by run: of an unanswered submission, or of an earlier driver."""
        if lost := self._lost.find(folder, listed):
            note_job(folder, [*lost], next(iter(lost.values())).job_id)
            return lost
        mine = self._ids()
        others = (
            job
            for job in listed
            if job.state.active and job.work_dir == folder and job.name == job_name(folder)
        )
        jobs = [job for job in others if job.job_id not in mine]
        return attach(folder, run_dirs, jobs, self._patience)

    def _not_submitted(
        self, folder: Path, run_dirs: list[Path], problem: SlurmError, listed: list[Listed]
    ) -> None:
        """Keep these runs, whose script is in `folder`, for the next poll, or refuse them."""
        said = str(problem)
        has_jobs = bool(self._last) or any(job.state.active for job in listed)
        wait = said if isinstance(problem, NoAnswerError) else wait_for(said, has_jobs=has_jobs)
        if wait:
            self._waiting.update(dict.fromkeys(run_dirs, wait))
            return
        for run_dir in run_dirs:
            self._take_over(run_dir, Status(State.REFUSED, reason=explain(folder, said)))

    def _take_over(self, run_dir: Path, status: Status) -> None:
        del self._waiting[run_dir]
        self._last[run_dir] = status

    def _ids(self) -> list[str | None]:
        """Return the job of each run; None for refused runs."""
        # The list is a copy, since other threads take over runs.
        return [status.job_id for status in [*self._last.values()]]

    # ---- looking

    def _look_up(self, listed: list[Listed]) -> dict[Path, Status]:
        by_id = {job.job_id: job for job in listed}
        ids = {*filter(None, self._ids())}
        self._seen |= ids & by_id.keys()
        accounts = self._accounting.states(ids - by_id.keys())
        statuses = {}
        for run, last in self._last.items():
            if not last.job_id or not last.state.active:
                statuses[run] = last
            elif last.job_id in by_id:
                statuses[run] = status_of(run, by_id[last.job_id])
            elif last.job_id not in {*accounts, *self._seen} and (job := _unnoted(run, listed)):
                note_job(run, [run], job.job_id)
                self._last[run] = replace(last, job_id=job.job_id)
                statuses[run] = status_of(run, job)
            else:
                state = _of_forgotten(run, last.job_id, accounts.get(last.job_id, State.GONE))
                statuses[run] = Status(state, last.job_id, last.restarts)
        return statuses

    def _give_back(self, statuses: dict[Path, Status]) -> Mapping[Path, Status]:
        believed = {run: self._believe(run, status) for run, status in statuses.items()}
        for run, status in believed.items():
            nodes = status.nodes or self._last[run].nodes
            self._last[run] = status
            if not status.state.active:
                if self.avoids_bad_nodes:
                    self._bad_nodes.note(run, replace(status, nodes=nodes))
                for known in (self._last, self._suspected):
                    known.pop(run, None)
        self._bad_nodes.act(
            {
                status.job_id: script_folder(run)
                for run, status in self._last.items()
                if status.job_id and status.state is State.PENDING
            }
        )
        return {**self._unsubmitted(), **believed}

    def _believe(self, run: Path, status: Status) -> Status:
        if status.state not in OFTEN_A_PASSAGE or self._suspected.get(run) == status:
            self._suspected.pop(run, None)
            return status
        self._suspected[run] = status
        return self._last[run]


def _unnoted(run_dir: Path, listed: Iterable[Listed]) -> Listed | None:
    """Return the run's job that job.json lacks because sbatch printed another id."""
    return find_new(run_dir, job_name(run_dir), noted_ids(run_dir), listed)


def _of_forgotten(run_dir: Path, job_id: str, said: State) -> State:
    """Return the final state of a job that slurmctld no longer lists, by its verdict or else by sacct.

    Accounting may lag or stay wrong: a job that sacct reports as active is gone.
    """
    run = RunFolder(run_dir)
    outcome = outcome_of(run, run.newest_attempt(job_id))
    return outcome or (State.GONE if said.active else said)

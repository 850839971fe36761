"""Jobs of runs: each contains one run, or several that share it one after another.

A job has a folder with its script: the folder of its only run, or a folder of its own. Its name and folder
identify it in the queue, so that a later driver finds it.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from argosy.run_folder.folder import SCRIPT, RunFolder, allocation_folder
from argosy.run_folder.job_file import add_job, newest_job, read_jobs, script_digest
from argosy.run_folder.models import Job, RunFolderError
from argosy.schedulers.base import Listed, State, Status, job_name
from argosy.schedulers.slurm.commands import Patience, call
from argosy.schedulers.slurm.queue import explain
from argosy.schedulers.slurm.shared_script import runs_of, write_script
from argosy.schedulers.slurm.submission import script_of, submit
from argosy_common.reading import read_text, site_of


def jobs_of(run_dirs: Iterable[Path]) -> dict[Path, list[Path]]:
    """Return the runs of each job by the job's folder."""
    found: defaultdict[Path, list[Path]] = defaultdict(list)
    for run_dir in run_dirs:
        found[_job_folder(run_dir)].append(run_dir)
    return found


def _job_folder(run_dir: Path) -> Path:
    try:
        return allocation_folder(site_of(run_dir), RunFolder(run_dir).spec.allocation) or run_dir
    except RunFolderError:
        return run_dir


def script_folder(run_dir: Path) -> Path:
    """Return the folder of the script of a run's newest job."""
    job = newest_job(run_dir)
    return site_of(run_dir) / job.allocation if job and job.allocation else run_dir


def repeat_of(run_dir: Path) -> int:
    """Return the number of a run's repeat; 0 if its run.json cannot be read."""
    try:
        return RunFolder(run_dir).spec.repeat
    except RunFolderError:
        return 0


def submit_job(folder: Path, run_dirs: list[Path], excluded: Callable[[Path], str]) -> Status:
    """Submit one job for these runs, in this order; `excluded` returns the nodes to exclude.

    Raises:
        SlurmError: if Slurm refuses it, or does not answer.
    """
    if run_dirs != [folder]:
        write_script(folder, run_dirs)
    (folder / "logs").mkdir(mode=0o700, exist_ok=True)
    job_id = submit(folder / SCRIPT, folder, excluded(folder))
    note_job(folder, run_dirs, job_id)
    return Status(State.PENDING, job_id)


def attach(
    folder: Path, run_dirs: list[Path], jobs: Iterable[Listed], patience: Patience
) -> dict[Path, Listed]:
    """Return existing jobs by run, for runs whose current scripts they contain and which have not ended.

    Jobs without such a script, and second jobs of the same runs, are cancelled.

    Args:
        folder: the folder of the runs' job.
        jobs: active jobs with this folder and its name.

    Raises:
        SlurmError: if Slurm does not answer.
    """
    attached: dict[Path, Listed] = {}
    for job in jobs:
        open_runs = [run for run in run_dirs if status_of(run, job).state.active]
        if not open_runs:
            continue
        current = _current_runs(script_of(job.job_id, folder, patience), folder, run_dirs)
        if not current - attached.keys():
            call("scancel", job.job_id)
        mine = [run for run in open_runs if run in current - attached.keys()]
        attached.update(dict.fromkeys(mine, job))
        # The answer to its submission may have been lost.
        note_job(folder, [run for run in mine if job.job_id not in noted_ids(run)], job.job_id)
    return attached


def _current_runs(script: str, folder: Path, run_dirs: list[Path]) -> set[Path]:
    """Return the runs whose scripts a job's script contains in their current form."""
    if run_dirs == [folder]:
        own = read_text(folder / SCRIPT, site_of(folder)).rstrip("\n") + "\n"
        return {folder} if script == own else set()
    return {run for run, digest in runs_of(script).items() if digest == _digest(run)}


def _digest(run_dir: Path) -> str | None:
    try:
        return script_digest(run_dir / SCRIPT)
    except OSError:
        return None


def noted_ids(run_dir: Path) -> list[str]:
    """Return the ids of the jobs in a run's job.json."""
    return [job.job_id for job in read_jobs(run_dir)]


def note_job(folder: Path, run_dirs: Sequence[Path], job_id: str) -> None:
    """Record the job of these runs in each run's job.json."""
    for run_dir in run_dirs:
        job = Job(
            scheduler="slurm",
            job_id=job_id,
            submitted=time.time(),
            script_sha256=script_digest(run_dir / SCRIPT),
            allocation=None if run_dir == folder else str(folder.relative_to(site_of(run_dir))),
        )
        add_job(run_dir, job)


def status_of(run_dir: Path, job: Listed) -> Status:
    """Return the status of a run by its job, or by its verdict if it has ended before its job.

    A site may clean up for minutes, and a shared job goes on with other runs. Slurm may requeue a job that
    was interrupted or cancelled, or left no verdict.
    """
    is_shared = job.name != job_name(run_dir)
    if not job.state.active or not (is_shared or job.state is State.ENDING):
        return job_status(job)
    run = RunFolder(run_dir)
    attempt = run.newest_of_start(job.job_id, job.restarts)
    outcome = outcome_of(run, attempt) if job.state.has_started else None
    # A requeued job does not repeat the runs that it has completed.
    if is_shared and outcome_of(run, run.newest_attempt(job.job_id)) is State.COMPLETED:
        outcome = State.COMPLETED
    if outcome:
        return Status(outcome, job.job_id, job.restarts, nodes=job.nodes)
    if is_shared and job.state.has_started and attempt is None:
        turn = f"earlier runs of job {job.job_id}"
        return Status(State.PENDING, job.job_id, job.restarts, turn, job.nodes)
    return job_status(job)


def outcome_of(run: RunFolder, attempt: str | None) -> State | None:
    """Return the final state by an attempt's verdict; None without one, or if it may be continued."""
    verdict = run.verdict(attempt)
    states = {"completed": State.COMPLETED, "failed": State.FAILED}
    return states.get(verdict.state) if verdict else None


def job_status(job: Listed) -> Status:
    """Return the status of a job, with the remedy if waiting will not help."""
    waits = job.state in (State.PENDING, State.REQUEUED)
    found = explain(job.reason, alone=job.alone)
    stuck = (found.meaning or job.reason) if waits and found.stuck else ""
    return Status(job.state, job.job_id, job.restarts, job.reason, job.nodes, stuck)

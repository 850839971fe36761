"""Shares one job among several runs: each run's own script runs in turn on the same nodes.

The job's script has its own folder and names its runs. So the queue's copy of the script identifies the
runs of a job that an earlier driver submitted.
"""

import math
import re
import shlex
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import argosy
from argosy.run_folder.folder import SCRIPT, RunFolder, allocation_folder
from argosy.run_folder.job_file import add_job, read_jobs, script_digest
from argosy.run_folder.models import Job, RunFolderError
from argosy.schedulers.base import BETWEEN_RUNS_S, Listed, State, Status, job_name
from argosy.schedulers.batch_system import find_batch_system
from argosy.schedulers.script_template import ScriptTemplate
from argosy.schedulers.slurm.commands import Patience, call
from argosy.schedulers.slurm.options import ScriptOptions
from argosy.schedulers.slurm.submission import script_of, submit
from argosy_common.files import write_text
from argosy_common.reading import site_of

TEMPLATE = "allocation.sbatch.j2"

MEASURE = re.compile(r"^measure (.+) ([0-9a-f]{64})$", re.MULTILINE)


def split_shared(run_dirs: Iterable[Path]) -> tuple[list[Path], dict[Path, list[Path]]]:
    """Split runs into runs with their own job, and runs that share a job, by the shared job's folder."""
    alone, shared = [], defaultdict(list)
    for run_dir in run_dirs:
        if folder := _folder_of(run_dir):
            shared[folder].append(run_dir)
        else:
            alone.append(run_dir)
    return alone, shared


def repeat_of(run_dir: Path) -> int:
    """Return the number of a run's repeat; 0 if its run.json cannot be read."""
    try:
        return RunFolder(run_dir).spec.repeat
    except RunFolderError:
        return 0


def _folder_of(run_dir: Path) -> Path | None:
    """Return the folder of the job that a planned run shares; None if it has its own job."""
    try:
        return allocation_folder(site_of(run_dir), RunFolder(run_dir).spec.allocation)
    except RunFolderError:
        return None


def submit_shared(
    folder: Path, run_dirs: Sequence[Path], excluded: Callable[[Path], str] = lambda _: ""
) -> Status:
    """Submit one job for these runs, in this order; `excluded` returns the nodes to exclude.

    Raises:
        SlurmError: if Slurm refuses it, or does not answer.
    """
    script = write_script(folder, run_dirs)
    job_id = submit(script, folder, excluded(folder))
    note(folder, run_dirs, job_id)
    return Status(State.PENDING, job_id)


def attach_shared(
    folder: Path, run_dirs: Sequence[Path], in_queue: Iterable[Listed], patience: Patience
) -> dict[Path, Listed]:
    """Return existing jobs by run, for runs whose current scripts they contain and which have not ended.

    A job without any current script is cancelled.

    Raises:
        SlurmError: if Slurm does not answer.
    """
    attached: dict[Path, Listed] = {}
    for job in in_queue:
        if job.name != job_name(folder):
            continue
        held = {
            run_dir
            for run_dir, digest in runs_of(script_of(job.job_id, folder, patience)).items()
            if digest == _digest(run_dir)
        }
        if not held:
            call("scancel", job.job_id)
        mine = [
            run_dir
            for run_dir in run_dirs
            if run_dir in held - attached.keys() and not _has_ended(run_dir, job)
        ]
        attached.update(dict.fromkeys(mine, job))
        # The answer to its submission may have been lost.
        note(folder, [each for each in mine if not _is_noted(each, job.job_id)], job.job_id)
    return attached


def _digest(run_dir: Path) -> str | None:
    try:
        return script_digest(run_dir / SCRIPT)
    except OSError:
        return None


def _has_ended(run_dir: Path, job: Listed) -> bool:
    status = status_of_run(run_dir, job)
    return status is not None and not status.state.active


def _is_noted(run_dir: Path, job_id: str) -> bool:
    return any(job.job_id == job_id for job in read_jobs(run_dir))


def note(folder: Path, run_dirs: Sequence[Path], job_id: str) -> None:
    """Record the job that these runs share in each run's job.json."""
    for run_dir in run_dirs:
        job = Job(
            scheduler="slurm",
            job_id=job_id,
            submitted=time.time(),
            script_sha256=script_digest(run_dir / SCRIPT),
            allocation=str(folder.relative_to(site_of(run_dir))),
        )
        add_job(run_dir, job)


def write_script(folder: Path, run_dirs: Sequence[Path]) -> Path:
    """Write the script of a job for these runs into its folder, and return its path."""
    (folder / "logs").mkdir(mode=0o700, parents=True, exist_ok=True)
    script = folder / SCRIPT
    write_text(script, script_text(folder, run_dirs))
    return script


def script_text(folder: Path, run_dirs: Sequence[Path]) -> str:
    """Return the script: the options of the largest run, the total time, and each run's own script.

    Raises:
        ArgosyError: with the template's name, if it is not usable.
    """
    asked = [ScriptOptions(run_dir) for run_dir in run_dirs]
    largest = max((each.values for each in asked), key=_size)
    minutes = sum(each.minutes + BETWEEN_RUNS_S / 60 for each in asked)
    options: Mapping[str, str | None] = {
        **largest,
        "job-name": job_name(folder),
        "chdir": str(folder),
        "output": f"{str(folder).replace('%', '%%')}/logs/scheduler-%j.log",
        "time": f"{minutes:.0f}" if math.isfinite(minutes) else "UNLIMITED",
    }
    site = site_of(folder)
    system = find_batch_system("slurm")
    template = ScriptTemplate(system, site.parents[1] / "slurm" / site.name, TEMPLATE)
    return template.render(
        {
            "options": options,
            "experiment": folder.parent.name,
            "folder": folder,
            "verdict": Path(argosy.__file__).parent / "runtime" / "verdict.py",
            "python": sys.executable,
            "runs": {run_dir: script_digest(run_dir / SCRIPT) for run_dir in run_dirs},
        }
    )


def _size(options: Mapping[str, str | None]) -> tuple[int, int]:
    nodes, cpus = (options.get(name) or "1" for name in ("nodes", "cpus-per-task"))
    return int(nodes), int(cpus)


def runs_of(script: str) -> dict[Path, str]:
    """Return the runs in a job's script, each with the digest of its own script."""
    found = {}
    for quoted, digest in MEASURE.findall(script):
        words = shlex.split(quoted)
        if len(words) == 1:
            found[Path(words[0])] = digest
    return found


def status_of_run(run_dir: Path, job: Listed) -> Status | None:
    """Return the status of a run of a shared job that has not ended; None: the job's status applies."""
    run = RunFolder(run_dir)
    newest = run.newest_attempt(job.job_id)
    verdict = run.verdict(newest)
    come_to = verdict.state if verdict else None
    if come_to == "completed":
        return Status(State.COMPLETED, job.job_id, job.restarts, nodes=job.nodes)
    if not job.state.has_started:
        return None
    if newest != f"{job.job_id}.{job.restarts}":
        turn = f"earlier runs of job {job.job_id}"
        return Status(State.PENDING, job.job_id, job.restarts, turn, job.nodes)
    # Slurm may be requeueing the job of a cancelled run, so the job's status applies.
    return Status(State.FAILED, job.job_id, job.restarts) if come_to == "failed" else None


def ending_of(run_dir: Path, job: Listed) -> Status | None:
    """Return the outcome of a run whose job is completing, by its verdict; None: the job's status applies.

    A site may clean up for minutes. Slurm may requeue a job that was interrupted or cancelled, or left no
    verdict.
    """
    if job.state is not State.ENDING:
        return None
    run = RunFolder(run_dir)
    state = outcome_of(run, run.newest_of_start(job.job_id, job.restarts))
    return Status(state, job.job_id, job.restarts, nodes=job.nodes) if state else None


def outcome_of(run: RunFolder, attempt: str | None) -> State | None:
    """Return the final state by an attempt's verdict; None without one, or if it may be continued."""
    verdict = run.verdict(attempt)
    states = {"completed": State.COMPLETED, "failed": State.FAILED}
    return states.get(verdict.state) if verdict else None

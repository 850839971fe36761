"""How a job's run ended, in the researcher's words, from the verdict that the job wrote."""

import resource
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import argosy
from argosy.errors import ArgosyError, plain
from argosy.files import rank_log, write_json
from argosy.jobs import job_file
from argosy.jobs.allocations import folder_below
from argosy.jobs.incarnations import incarnations_of, newest_incarnation, read_verdict
from argosy.jobs.log_tail import last_line
from argosy.jobs.outdated import Programs, changed_programs, read_own_object
from argosy.jobs.schedulers.base import SCRIPT, State, Status
from argosy.reading import site_of

ENDED_FROM_OUTSIDE = {
    State.TIMEOUT: "the time limit was reached; raise needs.time, or let the program save checkpoints",
    State.OUT_OF_MEMORY: "it ran out of memory; raise needs.memory_per_rank",
    State.NODE_FAIL: "a node failed",
    State.PREEMPTED: "it had to make room for another job",
    State.CANCELLED: "it was cancelled",
}
"""Why a job ended without a verdict of its own; of other endings its log has to tell."""


SETTLE_S = 120.0
"""How long a program may take that looks at what an execution left; it reads some files of each node."""
SETTLE_BYTES = 2 << 30


@dataclass(frozen=True)
class Ending:
    """Whether the run completed, and one line that says why if it did not."""

    completed: bool
    message: str
    logs: Path
    """The folder of the incarnation's logs."""

    @classmethod
    def failed(cls, message: str, logs: Path) -> "Ending":
        """An ending that says why, which may quote programs."""
        return cls(False, plain(message), logs)


def read_ending(run_dir: Path, status: Status) -> Ending:
    """The ending of the newest incarnation of a job that has ended."""
    name = "/".join(run_dir.parts[-3:])
    incarnation = newest_incarnation(run_dir, status.job_id) or f"{status.job_id}.0"
    logs = run_dir / "logs" / incarnation
    if status.state is State.REFUSED:
        return Ending.failed(status.reason, logs)
    verdict = read_verdict(run_dir, incarnation)
    if verdict is None:
        why = ENDED_FROM_OUTSIDE.get(status.state) or _last_words(run_dir, status.job_id, logs)
        return Ending.failed(f"{name}: the job ended without a verdict: {why}{_see(logs)}", logs)
    if verdict["state"] == "completed":
        return Ending(True, f"{name}: completed", logs)
    why = f": {_cause(run_dir, verdict['failure'], logs)}" if verdict["failure"] else ""
    return Ending.failed(f"{name}: {verdict['state']}{why}{_see(logs)}", logs)


def settle(run_dir: Path, status: Status) -> None:
    """Have the verdict written for what ended with no time to write one, by the same program.

    The report is then told of every incarnation, and why it ended as far as the queue knows. One that
    Slurm ended to start it again did not know that when it called itself cancelled.
    """
    newest = newest_incarnation(run_dir, status.job_id)
    for incarnation in incarnations_of(run_dir, status.job_id):
        verdict = read_verdict(run_dir, incarnation)
        restarted = incarnation != newest and verdict and verdict["state"] == "cancelled"
        if verdict is None or restarted:
            why = _reason(status.state) if incarnation == newest else ""
            if status.state is not State.CANCELLED:
                _run("watch_start.py", run_dir, incarnation)
            _run("verdict.py", run_dir, incarnation, why)


def _run(program: str, *arguments: str | Path) -> None:
    """Run a program of the job's own; it writes its findings into the run's folder.

    It has a time and a share of the memory: the driver has other runs to look after.
    """
    path = Path(argosy.__file__).parent / "runtime" / program
    process = subprocess.Popen(
        [sys.executable, path, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with suppress(ProcessLookupError):
        resource.prlimit(process.pid, resource.RLIMIT_AS, (SETTLE_BYTES, SETTLE_BYTES))
    try:
        process.wait(SETTLE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _reason(state: State) -> str:
    """The reason as verdict.py takes it."""
    return "scancel" if state is State.CANCELLED else ENDED_FROM_OUTSIDE.get(state, "")


def uncollected(run_dir: Path) -> Status | None:
    """The job that completed this run while no driver looked, if it is of the script and program of now.

    Its result is put in its place again: Snakemake has taken it away, taking it for a fragment.
    """
    entry = job_file.newest(run_dir)
    if not entry or entry.get("collected") or not entry.get("script_sha256"):
        return None
    job_id = str(entry["job_id"])
    verdict = read_verdict(run_dir, newest_incarnation(run_dir, job_id) or "")
    if not verdict or verdict["state"] != "completed":
        return None
    if entry["script_sha256"] != job_file.digest(run_dir / SCRIPT):
        return None
    programs = Programs(run_dir.parents[3] / "containers" / "workloads")
    if changed_programs(verdict, read_own_object(run_dir / "run.json") or {}, programs):
        return None
    write_json(run_dir / "result.json", verdict)
    return Status(State.COMPLETED, job_id)


def _cause(run_dir: Path, failure: Mapping[str, Any], logs: Path) -> str:
    """Who and why; a program that ended by itself is quoted with its last line."""
    rank, node, cause = failure["rank"], failure["node"], failure["cause"]
    where = "" if node is None else f"node {node}: "
    if rank is not None:
        where = f"rank {rank} (node {node}): "
        if cause.startswith("exit code"):
            said = last_line(rank_log(logs, rank), site_of(run_dir))
            cause += f": {said or 'it printed nothing'}"
    return f"{where}{cause}"


def _see(logs: Path) -> str:
    """Where to read on, if there is anything."""
    return f"; see {logs}" if logs.is_dir() else ""


def _last_words(run_dir: Path, job_id: str | None, logs: Path) -> str:
    """The last line of the job's own log, or of Slurm's where the job did not come so far."""
    for path in (logs / "job.log", slurm_log(run_dir, job_id)):
        if said := last_line(path, site_of(run_dir)):
            return said
    return f"it left no log; can the compute nodes write to {run_dir}?"


def slurm_log(run_dir: Path, job_id: str | None) -> Path:
    """Where Slurm writes what a job of the run says before the run has logs of its own."""
    try:
        entries = job_file.entries(run_dir)
    except ArgosyError:
        entries = []
    shared = (
        folder_below(site_of(run_dir), entry) for entry in entries if str(entry["job_id"]) == job_id
    )
    return (next(shared, None) or run_dir) / "logs" / f"slurm-{job_id}.log"

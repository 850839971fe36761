"""Describes the end of a job's run to the user, from the verdict that the job wrote."""

import os
import resource
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import argosy
from argosy.jobs.outdated import Programs, changed_programs
from argosy.run_folder.failures import describe_doubts, describe_verdict, last_words
from argosy.run_folder.folder import SCRIPT, RunFolder
from argosy.run_folder.job_file import newest_job, script_digest
from argosy.run_folder.models import RunFolderError
from argosy.schedulers.base import State, Status
from argosy.shipped.files import workloads_folder
from argosy_common.errors import plain
from argosy_common.files import write_text
from argosy_common.reading import read_text

ENDED_FROM_OUTSIDE = {
    State.TIMEOUT: "the time limit was reached; raise resources.time, or let the program save checkpoints",
    State.OUT_OF_MEMORY: "it ran out of memory; raise resources.memory_per_rank",
    State.NODE_FAIL: "a node failed",
    State.PREEMPTED: "another job preempted it",
    State.CANCELLED: "it was cancelled",
}
"""Causes of ends without a verdict, by state; for other states the log has the cause."""


SETTLE_S = 120.0
"""Time limit in seconds of a program that reads the files of an attempt."""
SETTLE_BYTES = 2 << 30
"""Memory limit of such a program, in bytes."""


@dataclass(frozen=True)
class Ending:
    """The outcome of a run, with one line about it and its cause."""

    completed: bool
    message: str
    logs: Path
    """The folder of the attempt's logs."""
    is_doubtful: bool = False
    """Whether the line includes doubts about the numbers of a completed run."""

    @classmethod
    def failed(cls, message: str, logs: Path) -> "Ending":
        """Return a failed ending; `message` may quote programs."""
        return cls(False, plain(message), logs)


def read_ending(run_dir: Path, status: Status) -> Ending:
    """Return the ending of the newest attempt of a job that has ended."""
    run = RunFolder(run_dir)
    attempt = run.newest_attempt(status.job_id) or f"{status.job_id}.0"
    logs = run.logs(attempt)
    if status.state is State.REFUSED:
        return Ending.failed(status.reason, logs)
    verdict = run.verdict(attempt)
    if verdict is None:
        why = ENDED_FROM_OUTSIDE.get(status.state) or last_words(run, status.job_id, attempt)
        why = why or f"it left no log; can the compute nodes write to {run_dir}?"
        return Ending.failed(
            f"{run.name}: the job ended without a verdict: {why}{_see(logs)}", logs
        )
    if verdict.state == "completed":
        doubts = plain(describe_doubts(run, verdict))
        return Ending(
            True, f"{run.name}: completed{'; ' * bool(doubts)}{doubts}", logs, bool(doubts)
        )
    why = describe_verdict(run, verdict)
    said = f"{verdict.state}: {why}" if why else verdict.state
    return Ending.failed(f"{run.name}: {said}{_see(logs)}", logs)


def settle(run_dir: Path, status: Status, log_words: Path | None) -> None:
    """Write the missing verdicts of a job's attempts, by the job's own program.

    So the report includes every attempt, with the cause from the queue. A verdict `cancelled` of an attempt
    that the queue restarted is replaced.

    Args:
        log_words: `LOG_WORDS` of the job's scheduler.
    """
    run = RunFolder(run_dir)
    newest = run.newest_attempt(status.job_id)
    for attempt in run.attempts_of(status.job_id):
        verdict = run.verdict(attempt)
        restarted = attempt != newest and verdict and verdict.state == "cancelled"
        if verdict is None or restarted:
            why = _reason(status.state) if attempt == newest else ""
            if status.state is not State.CANCELLED:
                _run(log_words, "watch_start.py", run_dir, attempt)
            _run(log_words, "verdict.py", run_dir, attempt, why)


def _run(log_words: Path | None, program: str, *arguments: str | Path) -> None:
    """Run a program of the job, which writes its findings into the run's folder.

    Its time and memory are limited, since the driver also serves other runs.
    """
    path = Path(argosy.__file__).parent / "runtime" / program
    process = subprocess.Popen(
        [sys.executable, "-E", "-S", path, *arguments],
        env={**os.environ, "ARGOSY_LOG_WORDS": str(log_words or "")},
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
    """Return the reason in the words of a job's log, for verdict.py."""
    words = {State.CANCELLED: "cancelled job", State.TIMEOUT: "time limit"}
    return words.get(state) or ENDED_FROM_OUTSIDE.get(state, "")


def uncollected(run_dir: Path) -> Status | None:
    """Return the status of a job that completed this run without a driver, if nothing has changed since.

    Its result.json is restored, since Snakemake has removed it as incomplete.
    """
    job = newest_job(run_dir)
    if not job or job.collected or not job.script_sha256:
        return None
    run = RunFolder(run_dir)
    attempt = run.newest_attempt(job.job_id)
    verdict = run.verdict(attempt)
    if not attempt or not verdict or verdict.state != "completed":
        return None
    if job.script_sha256 != script_digest(run_dir / SCRIPT):
        return None
    programs = Programs(workloads_folder(run_dir.parents[3]))
    with suppress(RunFolderError):
        if changed_programs(verdict, run.spec, programs):
            return None
    # Copy it verbatim: a later version may have written fields that are unknown here.
    write_text(
        run_dir / "result.json", read_text(run.attempt_dir(attempt) / "verdict.json", run.site)
    )
    return Status(State.COMPLETED, job.job_id)


def _see(logs: Path) -> str:
    """Return a reference to the logs, if they exist."""
    return f"; see {logs}" if logs.is_dir() else ""

"""What Slurm says of all of the user's jobs: one question, one answer."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from argosy.schedulers.base import Listed, State
from argosy.schedulers.slurm import spans
from argosy.schedulers.slurm.answers import SEPARATOR, columns, is_job_id, read_table
from argosy.schedulers.slurm.commands import Patience, SlurmError

FIELDS = (
    "JobID",
    "State",
    "Reason",
    "RestartCnt",
    "NodeList",
    "Name",
    "TimeUsed",
    "TimeLeft",
    "StartTime",
    "WorkDir",
)

STATES = {
    "PENDING": State.PENDING,
    "CONFIGURING": State.RUNNING,
    "RUNNING": State.RUNNING,
    "COMPLETING": State.ENDING,
    "SUSPENDED": State.RUNNING,
    "STOPPED": State.RUNNING,
    "RESIZING": State.RUNNING,
    "SIGNALING": State.RUNNING,
    "STAGE_OUT": State.ENDING,
    "REQUEUED": State.REQUEUED,
    "REQUEUE_FED": State.REQUEUED,
    "REQUEUE_HOLD": State.REQUEUED,
    "SPECIAL_EXIT": State.REQUEUED,
    # Since 25.11: requeued, with the highest priority there is.
    "EXPEDITING": State.REQUEUED,
    "RESV_DEL_HOLD": State.PENDING,
    "COMPLETED": State.COMPLETED,
    "FAILED": State.FAILED,
    "BOOT_FAIL": State.NODE_FAIL,
    "CANCELLED": State.CANCELLED,
    "REVOKED": State.CANCELLED,
    "TIMEOUT": State.TIMEOUT,
    "DEADLINE": State.TIMEOUT,
    "OUT_OF_MEMORY": State.OUT_OF_MEMORY,
    "NODE_FAIL": State.NODE_FAIL,
    "PREEMPTED": State.PREEMPTED,
}
"""JOB STATE CODES of squeue(1). One that is not known yet counts as running: it is not the end."""


def list_jobs(patience: Patience) -> list[Listed]:
    """Return all of the user's jobs that slurmctld still knows, ended ones too.

    Raises:
        SlurmError: when there is no answer.
    """
    layout = f"--Format={columns(FIELDS, ':,')}"
    text = patience.ask("squeue", "--all", "--me", "--states=all", layout)
    jobs = [_listed(row) for row in read_table(text, len(FIELDS)) if is_job_id(row[0])]
    started = {job.job_id for job in jobs if job.used_s}
    return [replace(job, alone=not started - {job.job_id}) for job in jobs]


def _listed(row: Sequence[str]) -> Listed:
    job_id, state, reason, restarts, nodes, name, used, left, start, work_dir = row
    count = int(restarts) if restarts.isdigit() else 0
    found = _state(state, State.RUNNING)
    if found is State.PENDING and count:
        found = State.REQUEUED
    plain = "" if reason == "None" else reason
    return Listed(
        job_id, found, plain, count, nodes, name, Path(work_dir),
        spans.seconds(used), spans.seconds(left), float(start) if start.isdigit() else None,
    )  # fmt: skip


def _state(said: str, otherwise: State) -> State:
    """Return the state that Slurm names, such as `CANCELLED by 1001`."""
    return STATES.get(said.partition(" ")[0].rstrip("+"), otherwise)


class Accounting:
    """What sacct knows of jobs that slurmctld has forgotten, at sites that keep accounts."""

    def __init__(self) -> None:
        self._patience = Patience()

    def states(self, job_ids: Collection[str]) -> dict[str, State]:
        """Return the last state of each job that the accounts know; nothing where they do not answer."""
        if not job_ids:
            return {}
        fields = ("JobIDRaw", "State")
        try:
            text = self._patience.ask(
                "sacct", "--parsable", f"--delimiter={SEPARATOR}", "--allocations", "--duplicates",
                f"--jobs={','.join(sorted(job_ids))}", f"--format={fields[0]},{','.join(fields)}",
            )  # fmt: skip
            rows = read_table(text, len(fields))
        except SlurmError:
            return {}
        # A requeued job has a line for each of its lives, the last one last.
        return {row[0]: _state(row[1], State.GONE) for row in rows if is_job_id(row[0])}

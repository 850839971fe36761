"""What Slurm says of all of the user's jobs: one question, one answer."""

from collections.abc import Collection, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from argosy.schedulers.base import Listed, State
from argosy.schedulers.slurm import spans
from argosy.schedulers.slurm.commands import NoAnswerError, Patience, SlurmError

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
    # The job is over when its nodes have been cleaned up, not before.
    "COMPLETING": State.RUNNING,
    "SUSPENDED": State.RUNNING,
    "STOPPED": State.RUNNING,
    "RESIZING": State.RUNNING,
    "SIGNALING": State.RUNNING,
    "STAGE_OUT": State.RUNNING,
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
    layout = ",".join(f"{field}:|" for field in FIELDS)
    text = patience.ask(
        "squeue", "--noheader", "--all", "--me", "--states=all", f"--Format={layout}"
    )
    return list(_parse(text))


def _parse(text: str) -> Iterator[Listed]:
    for line in text.splitlines():
        # Only the last field, a path, may hold the separator itself.
        parts = line.removesuffix("|").split("|", len(FIELDS) - 1)
        if len(parts) < len(FIELDS):
            continue
        job_id, state, reason, restarts, nodes, name, used, left, start, work_dir = parts
        count = int(restarts) if restarts.isdigit() else 0
        found = STATES.get(state.split()[0].rstrip("+"), State.RUNNING)
        if found is State.PENDING and count:
            found = State.REQUEUED
        plain = "" if reason == "None" else reason
        yield Listed(
            job_id, found, plain, count, nodes, name, Path(work_dir),
            spans.seconds(used), spans.seconds(left), _unix(start),
        )  # fmt: skip


def _unix(text: str) -> float | None:
    """Return a time of the cluster's, which is in the login node's own zone; N/A is none."""
    with suppress(ValueError):
        return datetime.fromisoformat(text.strip()).timestamp()
    return None


class Accounting:
    """What sacct knows of jobs that slurmctld has forgotten, at sites that keep accounts."""

    def __init__(self) -> None:
        self._works = True
        self._patience = Patience()

    def states(self, job_ids: Collection[str]) -> dict[str, State]:
        """Return the last state of each job that the accounts know."""
        if not job_ids or not self._works:
            return {}
        try:
            text = self._patience.ask(
                "sacct", "--noheader", "--parsable2", "--allocations", "--duplicates",
                f"--jobs={','.join(sorted(job_ids))}", "--format=JobIDRaw,State",
            )  # fmt: skip
        except NoAnswerError:
            return {}
        except SlurmError:
            # "Slurm accounting storage is disabled", or no such command: so it stays.
            self._works = False
            return {}
        # A requeued job has a line for each of its lives, the last one last.
        rows = [line.split("|") for line in text.splitlines() if "|" in line]
        return {row[0]: STATES.get(row[1].split()[0], State.GONE) for row in rows}

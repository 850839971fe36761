"""Lists the user's jobs by squeue and sacct, and explains Slurm's reasons for a wait."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from argosy.schedulers.base import Listed, Reason, State
from argosy.schedulers.slurm.answers import SEPARATOR, columns, is_job_id, read_table, span_seconds
from argosy.schedulers.slurm.commands import Patience, SlurmError

_STUCK = True
_QOS = Reason("your other jobs fill your limit of the QoS")
_ACCOUNT = Reason("your other jobs fill your limit of the account")

REASONS: tuple[tuple[str, Reason], ...] = (
    (r"Resources", Reason("waits for nodes to come free")),
    (r"Priority", Reason("other jobs have a higher priority")),
    (r"BeginTime", Reason("waits for its begin time (minutes after a requeue)")),
    (r"Dependency", Reason("waits for another job to end")),
    (r"DependencyNeverSatisfied", Reason("the job that it depends on failed", _STUCK)),
    (r"Reservation", Reason("waits for its reservation to begin")),
    (r"ReservationDeleted", Reason("its reservation is gone; submit without it", _STUCK)),
    (r"Licenses", Reason("waits for a licence to come free")),
    (r"Prolog", Reason("its nodes are being prepared")),
    (r"Cleaning", Reason("its previous run is still being cleaned up")),
    (r"ReqNodeNotAvail.*", Reason("nodes are down or reserved, often for a coming maintenance")),
    (r"NodeDown", Reason("a node that it needs is down")),
    (r"Partition(Down|Inactive)", Reason("the partition is closed for now")),
    (
        r"PartitionNodeLimit",
        Reason("requests more or fewer nodes than the partition allows", _STUCK),
    ),
    (r"PartitionTimeLimit", Reason("requests more time than the partition allows", _STUCK)),
    (r"PartitionConfig", Reason("requests more than the partition has", _STUCK)),
    (r"BadConstraints|BadConfig", Reason("no node has the requested resources", _STUCK)),
    (r"JobHeldUser", Reason("held by its user; release it with `scontrol release`", _STUCK)),
    (r"JobHeldAdmin", Reason("held by the site; ask its support why", _STUCK)),
    (
        r"launch.failed.requeued.held",
        Reason(
            "a node failed to start it, so Slurm holds it; release it with `scontrol release`",
            _STUCK,
        ),
    ),
    (r"job.requeued.in.held.state", Reason("held; release it with `scontrol release`", _STUCK)),
    (
        r"(Account|QOS)NotAllowed",
        Reason("the partition does not accept this account or QoS", _STUCK),
    ),
    (
        r"Invalid(Account|QOS)",
        Reason("the account or QoS does not exist, or no longer exists", _STUCK),
    ),
    (r"(QOS|Assoc)Max\w*PerJob(Limit)?", Reason("exceeds the limit per job", _STUCK)),
    (r"MaxMemPerLimit", Reason("exceeds the memory limit of a job", _STUCK)),
    (r"QOSMin\w*", Reason("requests less than the QoS requires", _STUCK)),
    (r"(QOS|Assoc)Max\w*PerNode(Limit)?", Reason("exceeds the limit per node", _STUCK)),
    (
        r"(QOS|Assoc)Grp\w*RunMinutes(Limit)?",
        Reason("running jobs have reserved the budget"),
    ),
    (
        r"(QOS|Assoc)Grp(\w*Minutes(Limit)?|WallLimit)",
        Reason("the account's budget is too small", _STUCK),
    ),
    (r"QOSMax\w*", _QOS),
    (r"AssocMax\w*", _ACCOUNT),
    (r"Max\w*PerAccount", Reason("all jobs of your account together have reached their limit")),
    (r"QOSGrp\w*", Reason("all jobs of this QoS together have reached their limit")),
    (r"AssocGrp\w*", Reason("all jobs of your account together have reached their limit")),
    (r"QOSUsageThreshold", Reason("your account has used too much lately for this QoS")),
    (
        r"JobHoldMaxRequeue",
        Reason("requeued too often; release it with `scontrol release`", _STUCK),
    ),
    (r"DeadLine", Reason("cannot end before its deadline", _STUCK)),
)
"""JOB REASON CODES of squeue(1) by pattern; the first full match counts."""

ALONE: Mapping[Reason, Reason] = {
    _QOS: Reason("exceeds your limit of the QoS; request less", _STUCK),
    _ACCOUNT: Reason("exceeds your limit of the account; request less", _STUCK),
}
"""The meaning of the same reasons if the user has no other job."""


def explain(said: str, *, alone: bool = False) -> Reason:
    """Return the meaning of a reason; empty for unknown words.

    Args:
        alone: whether no other job of the user has run recently.
    """
    word = said.strip()
    for pattern, reason in REASONS:
        if re.fullmatch(pattern, word, re.IGNORECASE):
            return ALONE.get(reason, reason) if alone else reason
    # The word for a held job may include a user or a message.
    held = "held" in word.lower()
    return Reason("", stuck=held)


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
    "SUSPENDED": State.SUSPENDED,
    "STOPPED": State.SUSPENDED,
    "RESIZING": State.RUNNING,
    "SIGNALING": State.RUNNING,
    "STAGE_OUT": State.ENDING,
    "REQUEUED": State.REQUEUED,
    "REQUEUE_FED": State.REQUEUED,
    "REQUEUE_HOLD": State.REQUEUED,
    "SPECIAL_EXIT": State.REQUEUED,
    # Since 25.11: requeued with the highest priority.
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
"""JOB STATE CODES of squeue(1). An unknown state counts as running."""


def list_jobs(patience: Patience) -> list[Listed]:
    """Return all of the user's jobs in slurmctld's list, including ended ones.

    Raises:
        SlurmError: if there is no answer.
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
        span_seconds(used), span_seconds(left), float(start) if start.isdigit() else None,
    )  # fmt: skip


def _state(said: str, otherwise: State) -> State:
    """Return the state in Slurm's text, such as `CANCELLED by 1001`."""
    return STATES.get(said.partition(" ")[0].rstrip("+"), otherwise)


class Accounting:
    """States of jobs that slurmctld has forgotten, from sacct, at sites with accounting."""

    def __init__(self) -> None:
        self._patience = Patience()

    def states(self, job_ids: Collection[str]) -> dict[str, State]:
        """Return the last recorded state of each job; empty without an answer."""
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
        # A requeued job has a line for each start, the latest last.
        return {row[0]: _state(row[1], State.GONE) for row in rows if is_job_id(row[0])}

"""Determines the state of a run from its files and the scheduler's answer about its job."""

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from argosy.jobs.verdicts import ENDED_FROM_OUTSIDE
from argosy.monitor.jobs import Answer, Machine, NewestJob, label, newest_job
from argosy.monitor.progress import NO_PROGRESS, Progress, read_progress, steps_done
from argosy.run_folder.failures import describe_doubts, describe_verdict, last_words
from argosy.run_folder.folder import RunFolder
from argosy.run_folder.models import NodeStatus, RunFolderError, Verdict, check_place
from argosy.runtime.contract.run import RunSpec
from argosy.runtime.contract.throughput import throughput_of
from argosy.schedulers import BatchSystem
from argosy.schedulers.base import State
from argosy.terminal import span
from argosy_common.reading import is_regular


class RunState(StrEnum):
    """States of a run, by importance: a small screen shows the first ones."""

    RUNNING = "running"
    FAILED = "failed"
    GONE = "gone"
    """The run has no verdict and is no longer in the queue."""
    UNREADABLE = "unreadable"
    REQUEUED = "requeued"
    PENDING = "pending"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"
    PLANNED = "planned"
    COMPLETED = "completed"


@dataclass(frozen=True)
class RunView:
    """One row of the table."""

    experiment: str
    run_id: str
    state: RunState
    job: str = ""
    nodes: str = ""
    used_s: float | None = None
    left_s: float | None = None
    progress: Progress = NO_PROGRESS
    reason: str = ""
    """The scheduler's reason for waiting."""
    note: str = ""
    """Why it waits or failed, in plain words."""
    stuck: bool = False
    """Whether waiting will not help, so the user has to act."""
    ended: bool = False
    """Whether its state is final until the user acts."""

    @property
    def name(self) -> str:
        return f"{self.experiment}/{self.run_id}"


OF_QUEUE = {
    State.PENDING: RunState.PENDING,
    State.REQUEUED: RunState.REQUEUED,
    State.RUNNING: RunState.RUNNING,
    State.SUSPENDED: RunState.RUNNING,
    State.ENDING: RunState.RUNNING,
    State.CANCELLED: RunState.CANCELLED,
}


@dataclass(frozen=True)
class ClusterState:
    """The state of the cluster at the time of a snapshot."""

    now: float
    """Unix time."""
    answer: Answer | None
    """None without a queue: jobs are processes of this machine."""
    machine: Machine
    system: BatchSystem


def look_at(path: Path, cluster: ClusterState) -> RunView:
    """Return the state of the run in the folder `path`."""
    run = RunFolder(path)
    name = (path.parent.name, path.name)
    try:
        spec = run.spec
        check_place(spec, path)
    except RunFolderError as problem:
        note = str(problem).removeprefix(f"{path}/")
        return RunView(*name, RunState.UNREADABLE, note=note, ended=True)
    job = newest_job(run, cluster.answer)
    if job is None:
        return RunView(*name, RunState.PLANNED)
    claim = run.claim(job.attempt) if job.attempt else None
    # After a restart a run may have fewer ranks.
    spec = claim.run if claim and claim.run else spec
    active = _is_active(run, job, cluster)
    verdict = (None if active else run.result) or run.verdict(job.attempt)
    if verdict and not (active and verdict.restart):
        view = _with_verdict(run, spec, verdict, cluster.answer is not None)
        note = "; ".join(filter(None, (view.note, _note_of(job))))
        return replace(view, ended=not active, note=note)
    if job.waits:
        return _waiting(run, job, cluster)
    return _running(run, spec, job, cluster) if active else _without_verdict(run, job)


def _is_active(run: RunFolder, job: NewestJob, cluster: ClusterState) -> bool:
    """Return whether the job is pending or running; without a queue's answer, judge by its files."""
    if cluster.answer is None:
        return cluster.machine.runs(job.noted, job.attempt or f"{job.job_id}.0")
    if job.listed:
        verdict = run.verdict(job.attempt)
        # The scheduler requeues an interrupted run.
        is_done = verdict is not None and verdict.state in ("completed", "failed")
        is_over = (
            is_done if job.listed.state is State.ENDING else job.shared and verdict is not None
        )
        return job.listed.state.active and not is_over
    if cluster.answer.fresh and job.began <= (cluster.answer.asked or 0.0):
        return False
    return run.verdict(job.attempt) is None


def _with_verdict(run: RunFolder, spec: RunSpec, verdict: Verdict, has_queue: bool) -> RunView:
    state = RunState(verdict.state)
    records, progress = run.records(verdict.attempt), NO_PROGRESS
    if state is RunState.COMPLETED:
        # The final throughput; now=0 means that no step is late.
        progress = read_progress(records, spec.processes, 0.0, throughput_of(spec.throughput))
        note = describe_doubts(run, verdict)
        if not is_regular(run.path / "result.json", run.site):
            note = "its result.json is gone; the next snakemake puts it back, or measures again"
    else:
        note = describe_verdict(run, verdict)
    if state is RunState.INTERRUPTED:
        progress = Progress(steps_done(records))
        note = note or "ended early; snakemake continues it from its last checkpoint"
    return RunView(
        run.path.parent.name, run.path.name, state,
        job=label(verdict.attempt) if has_queue else "",
        nodes=fold([host for host in verdict.hosts if host]),
        used_s=verdict.seconds,
        progress=progress,
        note=note,
    )  # fmt: skip


def _waiting(run: RunFolder, job: NewestJob, cluster: ClusterState) -> RunView:
    listed = job.listed
    said = listed.reason if listed else ""
    reason = cluster.system.explain(said, alone=bool(listed and listed.alone))
    note = reason.meaning
    state = OF_QUEUE[listed.state] if listed else RunState.PENDING
    if state is RunState.RUNNING:
        state, note = RunState.PENDING, "its job runs other runs first"
    if listed and listed.start and listed.start > cluster.now and not reason.stuck:
        note += f"{'; ' if note else ''}expected in {span(listed.start - cluster.now)}"
    return RunView(
        run.path.parent.name, run.path.name, state,
        job=job.label, reason=said, note=note, stuck=reason.stuck,
    )  # fmt: skip


def _running(run: RunFolder, spec: RunSpec, job: NewestJob, cluster: ClusterState) -> RunView:
    nodes = run.nodes(job.attempt) if job.attempt else []
    used, left = _times(run, job, nodes, cluster)
    progress = NO_PROGRESS
    if job.attempt:
        printed = throughput_of(spec.throughput)
        progress = read_progress(run.records(job.attempt), spec.processes, cluster.now, printed)
    name = job.label
    if cluster.answer is None:
        name = f"pid {job.noted.pid}" if job.noted else "by hand"
    return RunView(
        run.path.parent.name, run.path.name, RunState.RUNNING,
        job=name,
        nodes=(job.listed and not job.shared and job.listed.nodes)
        or fold([node.host for node in nodes]),
        used_s=used, left_s=left, progress=progress, note=_note_of(job),
    )  # fmt: skip


def _note_of(job: NewestJob) -> str:
    """Return a note about a job that has started and does not run, else an empty string."""
    if job.listed and job.listed.state is State.SUSPENDED:
        return "its job is suspended"
    is_ending = job.listed is not None and job.listed.state is State.ENDING and not job.shared
    return "its job is ending: the site cleans up after it" if is_ending else ""


def _times(
    run: RunFolder, job: NewestJob, nodes: list[NodeStatus], cluster: ClusterState
) -> tuple[float | None, float | None]:
    """Return time used and left, from the queue if possible; a script run by hand has no limit."""
    if job.listed and job.listed.used_s is not None and cluster.answer and not job.shared:
        since = cluster.now - (cluster.answer.asked or cluster.now)
        left = job.listed.left_s
        return job.listed.used_s + since, None if left is None else max(0.0, left - since)
    begin = (job.attempt and run.claimed_at(job.attempt)) or min(
        (node.started for node in nodes), default=None
    )
    if not begin:
        return None, None
    used = max(0.0, cluster.now - begin)
    limit = run.spec.time_limit_s
    by_hand = cluster.answer is None and job.noted is None
    if by_hand or limit is None:
        return used, None
    return used, max(0.0, limit - used)


def _without_verdict(run: RunFolder, job: NewestJob) -> RunView:
    """Return the view of a job that ended without a verdict, before a driver has settled it."""
    listed = job.listed
    state = RunState.GONE
    if listed:
        state = OF_QUEUE.get(listed.state, RunState.FAILED)
    return RunView(
        run.path.parent.name, run.path.name, state,
        job=job.label,
        nodes=listed.nodes if listed else "",
        used_s=listed.used_s if listed else None,
        note=_why_silent(run, job),
        ended=True,
    )  # fmt: skip


def _why_silent(run: RunFolder, job: NewestJob) -> str:
    """Return why a job ended without a verdict, from the queue or else the end of its log."""
    if job.listed and job.listed.state in ENDED_FROM_OUTSIDE:
        return ENDED_FROM_OUTSIDE[job.listed.state]
    said = last_words(run, job.job_id, job.attempt)
    return f"ended without a verdict{f': {said}' if said else ' and without a log'}"


def fold(hosts: list[str]) -> str:
    """Return the first host and the number of the others: `n1 +3`."""
    names = list(dict.fromkeys(hosts))
    return "".join(names[:1]) + (f" +{len(names) - 1}" if len(names) > 1 else "")

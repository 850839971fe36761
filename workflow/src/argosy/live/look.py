"""How one run is, from its files and what the scheduler says of its job."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from argosy.jobs import job_file
from argosy.jobs.schedulers.base import State
from argosy.jobs.schedulers.slurm.reasons import explain
from argosy.live import causes
from argosy.live.folders import RunFiles
from argosy.live.newest import Job, label, newest_job
from argosy.live.processes import Machine
from argosy.live.progress import Progress, read_progress, steps_done
from argosy.live.queue import Answer
from argosy.live.states import RunState, RunView
from argosy.live.tail import number, object_if_whole
from argosy.live.words import span
from argosy.reading import is_regular, status_of

OF_QUEUE = {
    State.PENDING: RunState.PENDING,
    State.REQUEUED: RunState.REQUEUED,
    State.RUNNING: RunState.RUNNING,
    State.CANCELLED: RunState.CANCELLED,
}
OF_VERDICT = {
    state.value: state
    for state in (RunState.COMPLETED, RunState.FAILED, RunState.INTERRUPTED, RunState.CANCELLED)
}


@dataclass(frozen=True)
class Moment:
    """What is known beside the files when a table is made."""

    now: float
    """Unix."""
    answer: Answer | None
    """None where there is no queue: jobs are processes of this machine."""
    machine: Machine


def look_at(path: Path, moment: Moment) -> RunView:
    """The run in the folder `path`."""
    run = RunFiles.read(path)
    name = (path.parent.name, path.name)
    if problem := _unreadable(run):
        return RunView(*name, RunState.UNREADABLE, note=problem, ended=True)
    job = newest_job(run, moment.answer)
    if job is None:
        return RunView(*name, RunState.PLANNED)
    active = _is_active(run, job, moment)
    result = None if active else object_if_whole(path / "result.json", run.site)
    verdict = result or run.verdict(job.incarnation)
    if verdict:
        view = _with_verdict(run, verdict, moment.answer is not None)
        return replace(view, ended=not active)
    if job.waits:
        return _waiting(run, job, moment)
    return _running(run, job, moment) if active else _without_verdict(run, job)


def _unreadable(run: RunFiles) -> str:
    version = run.asked.get("schema_version")
    if not run.asked:
        return f"run.json cannot be read{_why(run)}"
    if version != job_file.SCHEMA_VERSION:
        return f"run.json: schema_version {version} is not {job_file.SCHEMA_VERSION}"
    missing = {"nodes", "ranks_per_node"} - run.asked.keys()
    if missing:
        return f"run.json lacks {', '.join(sorted(missing))}"
    return "" if run.ranks else "run.json: nodes and ranks_per_node are no numbers of a job"


def _why(run: RunFiles) -> str:
    """What stands in the place of a run.json that is none."""
    try:
        status_of(run.path / "run.json", run.site)
    except OSError as problem:
        return f": {problem.strerror}"
    return ""


def _is_active(run: RunFiles, job: Job, moment: Moment) -> bool:
    """Whether the job is in the queue or runs; while the queue is silent, what its files suggest."""
    if moment.answer is None:
        return moment.machine.runs(job.entry, job.incarnation or f"{job.job_id}.0")
    if job.listed:
        is_over = job.shared and run.verdict(job.incarnation) is not None
        return job.listed.state.active and not is_over
    if moment.answer.fresh and job.began <= (moment.answer.asked or 0.0):
        return False
    return run.verdict(job.incarnation) is None


def _with_verdict(run: RunFiles, verdict: Mapping[str, Any], slurm: bool) -> RunView:
    incarnation = str(verdict.get("incarnation"))
    state = OF_VERDICT.get(str(verdict.get("state")), RunState.UNREADABLE)
    listed = verdict.get("hosts")
    hosts = [str(host) for host in listed if host] if isinstance(listed, list) else []
    note, progress = causes.of_verdict(run, verdict), Progress()
    if state in (RunState.COMPLETED, RunState.INTERRUPTED):
        progress = Progress(steps_done(run.records(incarnation)))
    if state is RunState.COMPLETED and not is_regular(run.path / "result.json", run.site):
        note = "its result.json is gone; the next snakemake puts it back, or measures again"
    if state is RunState.INTERRUPTED:
        note = note or "saved a checkpoint and ended; snakemake continues it"
    return RunView(
        run.path.parent.name, run.path.name, state,
        job=label(incarnation) if slurm else "",
        nodes=fold(hosts),
        used_s=number(verdict.get("seconds")),
        progress=progress,
        note=note,
    )  # fmt: skip


def _waiting(run: RunFiles, job: Job, moment: Moment) -> RunView:
    listed = job.listed
    said = listed.reason if listed else ""
    reason = explain(said)
    note = reason.meaning
    state = OF_QUEUE[listed.state] if listed else RunState.PENDING
    if state is RunState.RUNNING:
        state, note = RunState.PENDING, "its job runs; others that share it come first"
    if listed and listed.start and listed.start > moment.now:
        note += f"{'; ' if note else ''}expected in {span(listed.start - moment.now)}"
    return RunView(
        run.path.parent.name, run.path.name, state,
        job=job.label, reason=said, note=note, stuck=reason.stuck,
    )  # fmt: skip


def _running(run: RunFiles, job: Job, moment: Moment) -> RunView:
    nodes = run.nodes(job.incarnation) if job.incarnation else []
    used, left = _times(run, job, nodes, moment)
    progress = Progress()
    if job.incarnation:
        progress = read_progress(run.records(job.incarnation), run.ranks, moment.now)
    hosts = [str(node.get("host")) for node in nodes]
    name = job.label
    if moment.answer is None:
        name = f"pid {job.entry.get('pid')}" if job.entry else "by hand"
    return RunView(
        run.path.parent.name, run.path.name, RunState.RUNNING,
        job=name,
        nodes=(job.listed and not job.shared and job.listed.nodes) or fold(hosts),
        used_s=used, left_s=left, progress=progress,
    )  # fmt: skip


def _times(
    run: RunFiles, job: Job, nodes: list[dict[str, Any]], moment: Moment
) -> tuple[float | None, float | None]:
    """Time used and left; the queue knows best, and nobody limits what a user runs by hand."""
    if job.listed and job.listed.used_s is not None and moment.answer and not job.shared:
        since = moment.now - (moment.answer.asked or moment.now)
        left = job.listed.left_s
        return job.listed.used_s + since, None if left is None else max(0.0, left - since)
    starts = [start for node in nodes if (start := number(node.get("started")))]
    begin = (job.incarnation and run.claimed(job.incarnation)) or min(starts, default=None)
    if not begin:
        return None, None
    used = max(0.0, moment.now - begin)
    limit = number(run.asked.get("time_limit_s"))
    by_hand = moment.answer is None and job.entry is None
    if by_hand or limit is None:
        return used, None
    return used, max(0.0, limit - used)


def _without_verdict(run: RunFiles, job: Job) -> RunView:
    """A job that has ended and wrote no verdict; nobody has settled it yet."""
    listed = job.listed
    cause = causes.of_silence(run, job.job_id, job.incarnation, listed.state if listed else None)
    state = RunState.GONE
    if listed:
        state = OF_QUEUE.get(listed.state, RunState.FAILED)
    return RunView(
        run.path.parent.name, run.path.name, state,
        job=job.label,
        nodes=listed.nodes if listed else "",
        used_s=listed.used_s if listed else None,
        note=cause,
        ended=True,
    )  # fmt: skip


def fold(hosts: list[str]) -> str:
    """The first of several nodes stands for all."""
    names = list(dict.fromkeys(hosts))
    return "".join(names[:1]) + (f" +{len(names) - 1}" if len(names) > 1 else "")

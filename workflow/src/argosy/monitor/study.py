"""All runs of a site at one moment."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from argosy.monitor.jobs import Answer, Machine, Queue
from argosy.monitor.progress import steps_done
from argosy.monitor.run_state import ClusterState, RunState, RunView, look_at
from argosy.monitor.sites import planned_runs, run_folders
from argosy.run_folder.folder import RunFolder
from argosy.run_folder.models import RunFolderError, Verdict
from argosy.schedulers import BatchSystem, find_batch_system
from argosy.schedulers.base import job_name
from argosy.site.models import LOCAL
from argosy_common.errors import ArgosyError, plain

FINAL = (RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED)
"""States that last until the run's folder changes."""


@dataclass(frozen=True)
class Snapshot:
    """All runs of a site at one moment."""

    site: str
    scheduler: str
    """Its name in messages."""
    views: tuple[RunView, ...]
    answer: Answer | None
    """None without a queue."""
    at: float
    not_planned: int = 0
    """Number of earlier runs that have ended or never began, and that the study does not plan."""

    @property
    def ended(self) -> bool:
        return all(view.ended for view in self.views)


class Study:
    """A site's runs, for repeated snapshots.

    Raises:
        ArgosyError: if no run is planned there.
    """

    def __init__(
        self, site: Path, system: BatchSystem | None = None, queue: Queue | None = None
    ) -> None:
        self.site = site.resolve()
        runs = list(run_folders(self.site))
        if not runs:
            raise ArgosyError(f"{site}: no run is planned here", "run: snakemake")
        self._system = system or _system(runs)
        ask = self._system.list_jobs()
        self._queue = queue or (Queue(ask) if ask else None)
        self._final: dict[Path, tuple[int, RunView]] = {}

    def look(self, patience_s: float) -> Snapshot:
        """Return the current state of all runs; wait for the queue at most `patience_s` seconds."""
        cluster = self._ask(patience_s)
        views = {run: self._look_at(run, cluster) for run in run_folders(self.site)}
        totals = _Totals(views)
        planned = {*planned_runs(self.site)}
        shown = tuple(
            totals.add(run, view)
            for run, view in views.items()
            if run in planned or not (view.ended or view.state is RunState.PLANNED)
        )
        left_out = len(views) - len(shown)
        return Snapshot(
            self.site.name, self._system.NAME, shown, cluster.answer, cluster.now, left_out
        )

    def look_at_run(self, run: Path, patience_s: float) -> RunView:
        """Return the current state of one run, as `look`."""
        return look_at(run, self._ask(patience_s))

    def _ask(self, patience_s: float) -> ClusterState:
        # Ask the queue first: a job that ends in between has its verdict by the time its files are read.
        answer = self._queue.look(patience_s) if self._queue else None
        return ClusterState(time.time(), answer, Machine(), self._system)

    def _look_at(self, run: Path, cluster: ClusterState) -> RunView:
        changed = _mtime(run)
        in_queue = cluster.answer is not None and any(
            job.state.active for job in cluster.answer.jobs.get((run, job_name(run)), ())
        )
        if run in self._final and self._final[run][0] == changed and not in_queue:
            return self._final[run][1]
        view = look_at(run, cluster)
        if view.state in FINAL and view.ended and not in_queue:
            self._final[run] = (changed, view)
        return view


def _mtime(run: Path) -> int:
    """Return the mtime of the run's folder in nanoseconds."""
    try:
        return run.lstat().st_mtime_ns
    except OSError:
        # It has gone since it was listed.
        return 0


def _system(runs: list[Path]) -> BatchSystem:
    """Return the batch system that the first readable plan names."""
    for run in runs:
        if provenance := RunFolder(run).provenance:
            return find_batch_system(provenance.site.scheduler, f"{run}/provenance.json")
    return find_batch_system(LOCAL)


class _Totals:
    """Total steps of running runs, from a completed run of the same plan: a repeat or an older job."""

    def __init__(self, views: Mapping[Path, RunView]) -> None:
        self._views = views

    def add(self, run: Path, view: RunView) -> RunView:
        """Return the view with its total, if known and not yet exceeded."""
        done = view.progress.steps
        if view.state is not RunState.RUNNING or done is None:
            return view
        files = RunFolder(run)
        total = self._by_plan.get(_plan_without_repeat(files)) or _of_older_job(files)
        if total is None or total < done:
            return view
        return replace(view, progress=replace(view.progress, total=total))

    @cached_property
    def _by_plan(self) -> Mapping[str, int]:
        counts: dict[str, set[int]] = {}
        for run, view in self._views.items():
            if view.state is RunState.COMPLETED and view.progress.steps:
                folder = RunFolder(run)
                if _is_of_plan(folder, folder.result):
                    counts.setdefault(_plan_without_repeat(folder), set()).add(view.progress.steps)
        # A program that stops early by itself has no fixed total.
        return {plan: min(each) for plan, each in counts.items() if len(each) == 1}


def _plan_without_repeat(run: RunFolder) -> str:
    """Return the run's specification without its repeat."""
    return repr(replace(run.spec, run_id="", repeat=0, spec=None))


def _of_older_job(run: RunFolder) -> int | None:
    for attempt in reversed(run.attempts):
        verdict = run.verdict(attempt)
        if verdict and verdict.state == "completed" and _is_of_plan(run, verdict):
            return steps_done(run.records(attempt))
    return None


def _is_of_plan(run: RunFolder, verdict: Verdict | None) -> bool:
    """Return whether a measurement matches the run's current plan."""
    try:
        return verdict is not None and verdict.spec == run.spec.spec
    except RunFolderError:
        return False


SCHEMA_VERSION = 1


def described(snapshot: Snapshot) -> dict[str, Any]:
    """Return a snapshot as JSON: times in seconds, `at` in Unix time, null if unknown."""
    answer = snapshot.answer
    return {
        "schema_version": SCHEMA_VERSION,
        "site": plain(snapshot.site),
        "at": snapshot.at,
        "scheduler": snapshot.scheduler,
        "scheduler_silent_since": answer.silent_since if answer else None,
        "runs": [_run_as_json(view) for view in snapshot.views],
        "runs_not_planned": snapshot.not_planned,
    }


def _run_as_json(view: RunView) -> dict[str, Any]:
    return {
        "experiment": plain(view.experiment),
        "run": plain(view.run_id),
        "state": str(view.state),
        "ended": view.ended,
        "stuck": view.stuck,
        "job": plain(view.job) or None,
        "nodes": plain(view.nodes) or None,
        "used_s": view.used_s,
        "left_s": view.left_s,
        "steps": view.progress.steps,
        "total_steps": view.progress.total,
        "samples_per_s": view.progress.samples_per_s,
        "unit": f"{view.progress.unit}/s",
        "silent_s": view.progress.silent_s,
        "reason": plain(view.reason) or None,
        "note": plain(view.note) or None,
    }

"""A study in every state, and a queue that says what a test wants."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import step_files
from study_files import RunFiles, plan, write_json

from argosy.monitor.jobs import Queue
from argosy.monitor.run_state import RunView
from argosy.monitor.study import Study
from argosy.schedulers import find_batch_system
from argosy.schedulers.base import Listed, State


@dataclass
class FakeStudy:
    """Runs of a site on Slurm, and the jobs that the queue shows."""

    site: Path
    jobs: list[Listed] = field(default_factory=list)
    ask: Callable[[], list[Listed]] | None = None

    def plan(self, experiment: str = "digits", **asked: Any) -> RunFiles:
        return plan(self.site, experiment, **asked)

    def submitted(self, run: RunFiles, *job_ids: str, scheduler: str = "slurm") -> None:
        entries = [
            {"scheduler": scheduler, "job_id": job_id, "submitted": 1_700_000_000.0 + place}
            for place, job_id in enumerate(job_ids)
        ]
        write_json(run.path / "job.json", {"schema_version": 2, "jobs": entries})

    def queued(self, run: RunFiles, job_id: str, state: State, **more: Any) -> None:
        name = f"argosy-{run.path.parent.name}-{run.run_id}"
        facts = {"reason": "", "restarts": 0, "nodes": "", **more}
        self.jobs.append(Listed(job_id, state, name=name, work_dir=run.path, **facts))

    def study(self) -> Study:
        return Study(self.site, find_batch_system("slurm"), Queue(self.ask or (lambda: self.jobs)))

    def look(self) -> dict[str, RunView]:
        """The views by the run's name."""
        return {view.name: view for view in self.study().look(5).views}

    def only(self) -> RunView:
        (view,) = self.look().values()
        return view


def starts(run: RunFiles, attempt: str, seconds_ago: float = 60.0) -> None:
    """The traces of a job that has begun: it claimed the run, and its agents are there."""
    write_json(
        run.attempt(attempt) / "claim.json",
        {"schema_version": 2, "unix": time.time() - seconds_ago, "continues": None},
    )
    (run.path / "attempt").write_text(f"{attempt}\n")
    for node in range(run.nodes):
        run.node_status(attempt, node, f"host{node}", "running", ended=None)
    run.logs(attempt)


def ended_in(run: RunFiles, attempt: str, state: str, failure: Any = None) -> None:
    """A verdict, and what goes before it."""
    starts(run, attempt)
    run.execute(attempt, state, failure=failure)


def records(run: RunFiles, attempt: str, rank: int, steps: Sequence[dict[str, Any]]) -> Path:
    """A rank's file with these steps, of which only what differs is given."""
    path = run.steps_file(attempt, rank)
    rows = (step_files.row({"step": number, **step}) for number, step in enumerate(steps))
    step_files.write_rows(path, [step_files.header(rank), *rows])
    return path


def evenly(count: int, seconds: float = 0.5, samples: int = 32) -> list[dict[str, float]]:
    """Steps one after another."""
    return [{"start": n * seconds, "seconds": seconds, "samples": samples} for n in range(count)]

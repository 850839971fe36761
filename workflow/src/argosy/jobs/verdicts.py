"""How a job's run ended, in the researcher's words, from the verdict that the job wrote."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argosy.jobs.schedulers.base import Job


@dataclass(frozen=True)
class Ending:
    """Whether the run completed, and one line that says why if it did not."""

    completed: bool
    message: str
    logs: Path
    """The folder of the incarnation's logs."""


def read_ending(job: Job) -> Ending:
    """The ending of the newest incarnation of a job that has ended."""
    verdicts = sorted((job.run_dir / "records").glob(f"{job.job_id}.*/verdict.json"))
    name = "/".join(job.run_dir.parts[-3:])
    logs = job.run_dir / "logs" / (verdicts[-1].parent.name if verdicts else f"{job.job_id}.0")
    if not verdicts:
        last = _last_line(logs / "job.log")
        return Ending(False, f"{name}: the job ended without a verdict: {last}; see {logs}", logs)
    verdict = json.loads(verdicts[-1].read_text(encoding="utf-8"))
    if verdict["state"] == "completed":
        return Ending(True, f"{name}: completed", logs)
    why = f": {_cause(verdict['failure'], logs)}" if verdict["failure"] else ""
    return Ending(False, f"{name}: {verdict['state']}{why}; see {logs}", logs)


def _cause(failure: Mapping[str, Any], logs: Path) -> str:
    """Who and why; a program that ended by itself is quoted with its last line."""
    rank, node, cause = failure["rank"], failure["node"], failure["cause"]
    where = "" if node is None else f"node {node}: "
    if rank is not None:
        where = f"rank {rank} (node {node}): "
        if cause.startswith("exit code"):
            cause += f": {_last_line(logs / f'rank-{rank}.log')}"
    return f"{where}{cause}"


def _last_line(path: Path) -> str:
    if not path.is_file():
        return "it left no log"
    lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "its log is empty"

"""How a job's run ended, in the researcher's words, from the verdict that the job wrote."""

import json
from dataclasses import dataclass
from pathlib import Path

from argosy.jobs.schedulers.base import Job


@dataclass(frozen=True)
class Ending:
    """Whether the run completed, and one line that says why if it did not."""

    completed: bool
    message: str


def read_ending(job: Job) -> Ending:
    """The ending of the newest incarnation of a job that has ended."""
    verdicts = sorted((job.run_dir / "records").glob(f"{job.job_id}.*/verdict.json"))
    name = "/".join(job.run_dir.parts[-3:])
    logs = job.run_dir / "logs" / (verdicts[-1].parent.name if verdicts else f"{job.job_id}.0")
    if not verdicts:
        last = _last_line(logs / "job.log")
        return Ending(False, f"{name}: the job ended without a verdict: {last}; see {logs}")
    verdict = json.loads(verdicts[-1].read_text(encoding="utf-8"))
    if verdict["state"] == "completed":
        return Ending(True, f"{name}: completed")
    failure = verdict["failure"] or {"rank": None, "node": None, "cause": "no cause is known"}
    where = "" if failure["rank"] is None else f"rank {failure['rank']} "
    where += "" if failure["node"] is None else f"(node {failure['node']}): "
    return Ending(False, f"{name}: {verdict['state']}: {where}{failure['cause']}; see {logs}")


def _last_line(path: Path) -> str:
    if not path.is_file():
        return "it left no log"
    lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "its log is empty"

"""A scheduler in 60 lines: scripts are processes of this machine, as many at once as there are."""

import os
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from argosy.run_folder.job_file import add_job, newest_job, script_digest
from argosy.run_folder.models import Job
from argosy.schedulers.base import State, Status
from argosy.schedulers.job_request import JobRequest
from argosy.schedulers.local import check_scripts, explain, list_jobs, make_surveyor

__all__ = ["check_scripts", "explain", "list_jobs", "make_surveyor"]

NAME, HAS_QUEUE, SHARES_JOBS = "the spool", True, False
TEMPLATES: Path | None = Path(__file__).parent
LOG_WORDS: Path | None = None


class Spool:
    cancel_command, pause_s, trouble = "kill", 0.2, None

    def __init__(self) -> None:
        self._jobs: dict[Path, subprocess.Popen[bytes]] = {}

    def submit(self, run_dirs: Iterable[Path]) -> None:
        for run_dir in run_dirs:
            script, job_id = run_dir / "job.sbatch", f"{time.time_ns()}"
            with (run_dir / "logs" / f"scheduler-{job_id}.log").open("wb") as log:
                environment = {**os.environ, "ARGOSY_JOB_ID": job_id}
                self._jobs[run_dir] = subprocess.Popen(
                    ["bash", script], stdout=log, stderr=log, env=environment
                )
            noted = {"scheduler": "spool", "job_id": job_id, "submitted": time.time()}
            add_job(run_dir, Job(**noted, script_sha256=script_digest(script)))

    def poll(self) -> Mapping[Path, Status]:
        states = {None: State.RUNNING, 0: State.COMPLETED}
        found = {}
        for run_dir, process in list(self._jobs.items()):
            job, state = newest_job(run_dir), states.get(process.poll(), State.FAILED)
            found[run_dir] = Status(state, job.job_id if job else None)
            if not state.active:
                del self._jobs[run_dir]
        return found

    def cancel(self) -> None:
        for process in self._jobs.values():
            process.terminate()


def make_scheduler(poll_s: float) -> Spool:
    return Spool()


def script_options(job: JobRequest) -> Mapping[str, str | None]:
    fields = job.fields
    return job.with_options_of_site({"slots": f"{fields['cpus']}", "time": f"{fields['minutes']}"})


def directive(name: str, value: str | None) -> str:
    return f"#SPOOL {name} {value}"

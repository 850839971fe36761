"""What the executor asks of whoever runs batch scripts; a scheduler is one module beside this one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol


class State(Enum):
    """A job as its scheduler sees it. Whether the run went well is in its verdict, not here."""

    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True)
class Job:
    """A submitted batch script: the run's folder and the scheduler's name for the job."""

    run_dir: Path
    job_id: str


class Scheduler(Protocol):
    """Runs batch scripts. Implementations keep what they know in each run's job.json."""

    def submit(self, script: Path) -> Job:
        """Start the script, or attach to the job that an earlier driver left running for it."""

    def poll(self, jobs: Iterable[Job]) -> Mapping[Job, State]:
        """The state of all jobs, by one look."""

    def cancel(self, jobs: Iterable[Job]) -> None:
        """End the jobs and return when they have ended."""

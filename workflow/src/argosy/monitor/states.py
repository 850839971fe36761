"""How a run is at the moment, as the table shows it."""

from dataclasses import dataclass
from enum import StrEnum

from argosy.monitor.progress import NO_PROGRESS, Progress


class RunState(StrEnum):
    """From the researcher's point of view; in the order in which a crowded screen shows them."""

    RUNNING = "running"
    FAILED = "failed"
    GONE = "gone"
    """It left no verdict, and the scheduler knows it no longer."""
    UNREADABLE = "unreadable"
    REQUEUED = "requeued"
    PENDING = "pending"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"
    PLANNED = "planned"
    COMPLETED = "completed"


@dataclass(frozen=True)
class RunView:
    """One line of the table."""

    experiment: str
    run_id: str
    state: RunState
    job: str = ""
    nodes: str = ""
    used_s: float | None = None
    left_s: float | None = None
    progress: Progress = NO_PROGRESS
    reason: str = ""
    """Why it waits, in the queue's words."""
    note: str = ""
    """Why it waits or failed, in plain words."""
    stuck: bool = False
    """It will never run unless somebody does something."""
    ended: bool = False
    """Nothing more will come of it by itself."""

    @property
    def name(self) -> str:
        return f"{self.experiment}/{self.run_id}"

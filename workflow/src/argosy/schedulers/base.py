"""Job states and statuses common to all schedulers, and the interface between executor and scheduler.

The folder of a run identifies its job, since a run has one job at a time.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

from argosy_common.errors import ArgosyError, some

Say = Callable[[str], None]

BETWEEN_RUNS_S = 60
"""Seconds added for each run of a shared job, for the start and end of the run's script."""


def job_name(run_dir: Path) -> str:
    """Return the name of a run's job in the queue."""
    return f"argosy-{run_dir.parent.name}-{run_dir.name}"


class SchedulerError(Exception):
    """The scheduler failed or refused; the text is its message in one line."""


class NotNowError(SchedulerError):
    """The request may succeed later: the job has no known fault."""


class BusyError(NotNowError):
    """The scheduler accepts no more jobs of the user for now; try again later."""


class NotAnsweredError(ArgosyError):
    """The scheduler did not answer in time: the state of the jobs is unknown."""


class State(Enum):
    """The scheduler's state of a job; the result of the run is in its verdict."""

    WAITING = "not yet submitted"
    PENDING = "pending"
    REQUEUED = "requeued"
    RUNNING = "running"
    SUSPENDED = "suspended"
    ENDING = "ending"
    """The script has ended and the site cleans up; the scheduler may still requeue the job."""
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "time limit reached"
    OUT_OF_MEMORY = "out of memory"
    NODE_FAIL = "node failure"
    PREEMPTED = "preempted"
    REFUSED = "refused"
    GONE = "no longer known to the scheduler"

    @property
    def active(self) -> bool:
        """Whether the job has not ended."""
        return self in ACTIVE

    @property
    def has_started(self) -> bool:
        """Whether the script has started and the job has not ended."""
        return self in STARTED


STARTED = (State.RUNNING, State.SUSPENDED, State.ENDING)
ACTIVE = (*STARTED, State.PENDING, State.REQUEUED, State.WAITING)
"""States of jobs that have not ended, in the order of messages."""


@dataclass(frozen=True)
class Status:
    """The status of a job.

    `job_id` is None until submission; `reason` is the scheduler's reason for the state; `nodes` is the
    scheduler's list of nodes; `stuck` is the remedy if waiting will not help.
    """

    state: State
    job_id: str | None = None
    restarts: int = 0
    reason: str = ""
    nodes: str = ""
    stuck: str = ""


@dataclass(frozen=True)
class Listed:
    """A job listed by the queue."""

    job_id: str
    state: State
    reason: str
    restarts: int
    nodes: str
    name: str
    work_dir: Path
    used_s: float | None = None
    """Seconds since its last start."""
    left_s: float | None = None
    """Seconds until its time limit; None without one."""
    start: float | None = None
    """Unix time of its start, or of its expected start."""
    alone: bool = False
    """Whether the queue shows no other running or recent job of the user."""


@dataclass(frozen=True)
class Reason:
    """The meaning of a reason for waiting; if `stuck`, it never resolves by itself."""

    meaning: str
    stuck: bool = False


@dataclass(frozen=True)
class Accepted:
    """A script that a scheduler accepts.

    `wait` is the reason for which it will wait, `given` the difference of its allocation from its request.
    """

    script: Path
    wait: str = ""
    given: str = ""

    def __str__(self) -> str:
        waits = f"; it will wait: {self.wait}" if self.wait else ""
        return f"{self.script}: accepted{waits}" + (f"; {self.given}" if self.given else "")


class Scheduler(Protocol):
    """Runs batch scripts. Implementations record jobs in each run's job.json."""

    avoids_bad_nodes: bool
    """Whether jobs avoid a node on which runs fail in a way that no other node shares."""

    @property
    def cancel_command(self) -> str:
        """The command that cancels a job, without the job id."""

    @property
    def pause_s(self) -> float:
        """Seconds until the next poll."""

    @property
    def trouble(self) -> str | None:
        """Why the scheduler does not answer, for the user; None if it does."""

    def submit(self, run_dirs: Iterable[Path]) -> None:
        """Accept runs: attach to jobs of earlier drivers, and submit the others."""

    def poll(self) -> Mapping[Path, Status]:
        """Return the status of all accepted runs, and release ended ones."""

    def cancel(self) -> None:
        """Cancel the jobs of all accepted runs.

        Raises:
            SchedulerError: if they could not be cancelled.
        """


def describe_queue(statuses: Collection[Status], cancel_command: str) -> str:
    """Return a line of job counts by state, reasons, and remedies for stuck jobs; empty without jobs."""
    states = Counter(status.state for status in statuses if status.state.active)
    parts = []
    for state in ACTIVE:
        if states[state]:
            reasons = Counter(each.reason for each in statuses if each.state is state)
            why = ", ".join(f"{reason} {n}" for reason, n in reasons.most_common(3) if reason)
            parts.append(f"{states[state]} {state.value}" + (f" ({why})" if why else ""))
    stuck: dict[str, list[str]] = {}
    for each in statuses:
        if each.state.active and each.stuck:
            stuck.setdefault(each.stuck, []).append(each.job_id or "?")
    helps = [
        f"; waiting will not help {_job_list(ids)}: {what}, or give up by `{cancel_command}`"
        for what, ids in stuck.items()
    ]
    return f"jobs: {', '.join(parts)}{''.join(helps)}" if parts else ""


def _job_list(job_ids: Sequence[str]) -> str:
    return f"job{'s' if len(job_ids) > 1 else ''} {some(job_ids, 3)}"


SILENCE_S = 30.0


@contextmanager
def speaking(say: Say, waits_for: str) -> Iterator[None]:
    """Report `waits_for` and the time so far every SILENCE_S seconds while the block runs."""
    ended, began = threading.Event(), time.monotonic()

    def speak() -> None:
        while not ended.wait(SILENCE_S):
            say(f"waiting for {waits_for}, for {time.monotonic() - began:.0f} s")

    speaker = threading.Thread(target=speak, daemon=True)
    speaker.start()
    try:
        yield
    finally:
        ended.set()
        speaker.join()

"""Jobs as all schedulers see them, and what the executor asks of whoever runs batch scripts.

A job is known by its run's folder: a run has one job at a time.
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

from argosy.errors import ArgosyError

Say = Callable[[str], None]

BETWEEN_RUNS_S = 60
"""Added to each run's time in a job that holds several: its script begins and ends outside of that time."""


def job_name(run_dir: Path) -> str:
    """Return the name by which the queue shows a run's job, and by which it is found there again."""
    return f"argosy-{run_dir.parent.name}-{run_dir.name}"


class SchedulerError(Exception):
    """The scheduler could not do what it was asked; the text is its own, in one line."""


class NotNowError(SchedulerError):
    """It could not be done now, and perhaps later: nothing is known to be wrong with the job."""


class BusyError(NotNowError):
    """The scheduler takes no more jobs of the user for now: the same may be asked again later."""


class NotAnsweredError(ArgosyError):
    """The scheduler has not answered for as long as it is asked: nothing is known of the jobs."""


class State(Enum):
    """A job as its scheduler sees it. Whether the run went well is in its verdict, not here."""

    WAITING = "not yet submitted"
    PENDING = "pending"
    REQUEUED = "requeued"
    RUNNING = "running"
    ENDING = "ending"
    """Its script has ended, and the site cleans up after it; it may yet return to the queue."""
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
        """Whether the job is still to come to its end."""
        return self in ACTIVE


ACTIVE = (State.RUNNING, State.ENDING, State.PENDING, State.REQUEUED, State.WAITING)
"""In the order in which they are told."""


@dataclass(frozen=True)
class Status:
    """How a job is.

    `job_id` is None until it is submitted; `reason` says why it is in that state, in the scheduler's
    words; `nodes` is the list of nodes as the scheduler writes it; `stuck` says what to do where
    waiting will not help.
    """

    state: State
    job_id: str | None = None
    restarts: int = 0
    reason: str = ""
    nodes: str = ""
    stuck: str = ""


@dataclass(frozen=True)
class Listed:
    """A job as a queue shows it."""

    job_id: str
    state: State
    reason: str
    restarts: int
    nodes: str
    name: str
    work_dir: Path
    used_s: float | None = None
    """How long it has run, since its last start."""
    left_s: float | None = None
    """Until its time limit; None where there is none."""
    start: float | None = None
    """When it started, or is expected to, in seconds since the epoch."""
    alone: bool = False
    """No other job of the user runs, or has run as long as the queue remembers."""


@dataclass(frozen=True)
class Reason:
    """What a queue's reason for a wait means; one that is `stuck` never resolves by itself."""

    meaning: str
    stuck: bool = False


@dataclass(frozen=True)
class Accepted:
    """A script that a scheduler takes, for all of its shape.

    `wait` says what keeps it from starting, `given` that it will get something else than it asks for.
    """

    script: Path
    wait: str = ""
    given: str = ""

    def __str__(self) -> str:
        waits = f"; it will wait: {self.wait}" if self.wait else ""
        return f"{self.script}: accepted{waits}" + (f"; {self.given}" if self.given else "")


class Scheduler(Protocol):
    """Runs batch scripts. Implementations keep what they know in each run's job.json."""

    avoids_bad_nodes: bool
    """Whether jobs avoid a node on which runs fail in a way that no other node shares."""

    @property
    def cancel_command(self) -> str:
        """The command by which a user cancels a job, whose number follows it."""

    @property
    def pause_s(self) -> float:
        """How long to wait until the next poll, in seconds."""

    @property
    def trouble(self) -> str | None:
        """What keeps the scheduler from answering, for the user; None when all is well."""

    def submit(self, run_dirs: Iterable[Path]) -> None:
        """Take over these runs: attach to the jobs that earlier drivers left, submit the others."""

    def poll(self) -> Mapping[Path, Status]:
        """Return the status of all runs taken over, by one look; those that ended are given back by it."""

    def cancel(self) -> None:
        """End the jobs of all runs taken over, and return when they have been told.

        Raises:
            SchedulerError: when they could not be told.
        """


def describe_queue(statuses: Collection[Status], cancel_command: str) -> str:
    """Return one line: how many jobs are in which state, and why those wait that wait; empty without any.

    Of those for which waiting will not help it says what does.
    """
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
    more = f" and {len(job_ids) - 3} more" if len(job_ids) > 3 else ""
    return f"job{'s' if len(job_ids) > 1 else ''} {', '.join(job_ids[:3])}{more}"


SILENCE_S = 30.0


@contextmanager
def speaking(say: Say, waits_for: str) -> Iterator[None]:
    """Say every SILENCE_S seconds what the block waits for, and for how long."""
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

"""What the queue says of the jobs, asked for in the background: a table never waits long for it."""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from argosy.schedulers.base import Listed, SchedulerError

EASE = 20.0
"""A question is asked again after as many times as long as its answer took, at the earliest."""


@dataclass(frozen=True)
class Answer:
    """The last answer, and since when there is none any more."""

    jobs: Mapping[tuple[Path, str], Sequence[Listed]] = field(default_factory=dict)
    """By the folder in which a job runs, and its name."""
    asked: float | None = None
    """When that was (unix): what was submitted later is not in it. None: there never was one."""
    silent_since: float | None = None
    problem: str = ""

    @property
    def fresh(self) -> bool:
        """Whether a job that is not in it is not in the queue."""
        return self.asked is not None and self.silent_since is None


class Queue:
    """Asks for the user's jobs, one call at a time."""

    def __init__(self, ask: Callable[[], Sequence[Listed]]) -> None:
        self._ask = ask
        self._answer = Answer()
        self._call: _Call | None = None
        self._not_before = 0.0

    def look(self, patience_s: float) -> Answer:
        """Return the answer to a question asked now, or what is known when `patience_s` have passed."""
        if self._call is None and time.monotonic() >= self._not_before:
            self._call = _Call(self._ask)
            self._call.start()
        if self._call:
            self._call.join(patience_s)
            self._take(self._call)
        return self._answer

    def _take(self, call: "_Call") -> None:
        if not call.is_alive():
            self._call = None
            self._not_before = time.monotonic() + EASE * call.took_s
        if call.jobs is not None:
            self._answer = Answer(_by_run(call.jobs), call.asked)
        else:
            since = self._answer.silent_since or call.asked
            self._answer = replace(self._answer, silent_since=since, problem=call.problem)


class _Call(threading.Thread):
    """One question. A daemon: nobody waits for it in order to leave."""

    def __init__(self, ask: Callable[[], Sequence[Listed]]) -> None:
        super().__init__(daemon=True)
        self._ask = ask
        self.asked = time.time()
        self.took_s = 0.0
        self.jobs: Sequence[Listed] | None = None
        self.problem = "no answer yet"

    def run(self) -> None:
        began = time.monotonic()
        try:
            self.jobs = self._ask()
        except SchedulerError as problem:
            self.problem = str(problem)
        self.took_s = time.monotonic() - began


def _by_run(jobs: Sequence[Listed]) -> dict[tuple[Path, str], list[Listed]]:
    found: dict[tuple[Path, str], list[Listed]] = {}
    for job in jobs:
        # A home folder may have another name on the way there.
        folder = Path(os.path.realpath(job.work_dir))
        found.setdefault((folder, job.name), []).append(job)
    return found

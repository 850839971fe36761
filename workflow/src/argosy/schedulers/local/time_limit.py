"""Holds jobs of this machine to `resources.time`, as Slurm does: a warning, SIGTERM, then SIGKILL."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from argosy.files import write_text
from argosy.run_folder.folder import RunFolder
from argosy.run_folder.models import Job, RunFolderError

KILL_WAIT_S = 30.0
"""From SIGTERM to SIGKILL; Slurm's default KillWait."""

MARK = "time-limit"
"""The file of an attempt by which verdict.py knows why it ended."""


@dataclass(frozen=True)
class TimeLimit:
    """What a run may take, and how long before that it is warned, in seconds; None: not."""

    seconds: float
    warning: float | None

    @classmethod
    def of_run(cls, run_dir: Path) -> "TimeLimit | None":
        """Return the limit that run.json names; None where it names none."""
        try:
            spec = RunFolder(run_dir).spec
        except RunFolderError:
            return None
        if spec.time_limit_s is None:
            return None
        return cls(spec.time_limit_s, spec.checkpoints.warning_s if spec.checkpoints else None)


class Enforcer:
    """Ends one job that is over its limit; asked again and again.

    Args:
        run_dir: the folder of its run.
        job: its process.
        family: lists the processes of the job as they are now.
    """

    def __init__(self, run_dir: Path, job: Job, family: Callable[[], list[psutil.Process]]) -> None:
        self._limit = TimeLimit.of_run(run_dir)
        self._run_dir = run_dir
        self._job = job
        self._family = family
        self._warned = False
        self._ended_at: float | None = None

    @property
    def ended(self) -> bool:
        """Whether the job was ended for its time."""
        return self._ended_at is not None

    def enforce(self) -> None:
        """Do what is due. The job's script must be alive."""
        if self._limit is None or self._job.process_created is None:
            return
        left = self._job.process_created + self._limit.seconds - time.time()
        if self._ended_at is not None:
            self._kill_in_time(self._ended_at)
        elif left <= 0:
            self._ended_at = time.monotonic()
            # Without a claim it has not come so far that a verdict would be written.
            attempt = RunFolder(self._run_dir).attempt_dir(f"{self._job.job_id}.0")
            if attempt.is_dir():
                write_text(attempt / MARK, "the time limit was reached\n")
            self._signal(signal.SIGTERM)
        elif self._limit.warning and left <= self._limit.warning and not self._warned:
            self._warned = True
            self._signal(signal.SIGUSR1)

    def _kill_in_time(self, ended_at: float) -> None:
        if time.monotonic() > ended_at + KILL_WAIT_S:
            for process in self._family():
                with suppress(psutil.NoSuchProcess):
                    process.kill()

    def _signal(self, number: signal.Signals) -> None:
        if self._job.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._job.pid, number)

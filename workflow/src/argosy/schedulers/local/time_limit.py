"""Enforces `resources.time` for jobs of this machine, as Slurm does: a warning, SIGTERM, then SIGKILL."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from argosy.run_folder.folder import RunFolder
from argosy.run_folder.models import RunFolderError
from argosy_common.files import write_text

KILL_WAIT_S = 30.0
"""Seconds from SIGTERM to SIGKILL; Slurm's default KillWait."""

MARK = "time-limit"
"""An attempt's file that tells verdict.py that the time limit ended it."""


def limits_of(run_dir: Path, attempt: str) -> tuple[float | None, float | None]:
    """Return the time limit of a run, and its warning before the limit, in seconds; None without one.

    An attempt's claim comes before run.json, which may have changed since.
    """
    run = RunFolder(run_dir)
    try:
        claim = run.claim(attempt)
        spec = claim.run if claim and claim.run else run.spec
    except RunFolderError:
        return None, None
    return spec.time_limit_s, spec.checkpoints.warning_s if spec.checkpoints else None


class Enforcer:
    """Ends one job that exceeds its time limit; each poll calls `enforce`.

    Args:
        run_dir: the run's folder.
        job_id: the job's id.
        script: the job's first process, alive.
        family: lists the current processes of the job.

    Raises:
        psutil.NoSuchProcess: if the script has ended.
    """

    def __init__(
        self,
        run_dir: Path,
        job_id: str,
        script: psutil.Process,
        family: Callable[[], list[psutil.Process]],
    ) -> None:
        self._limit_s, self._warning_s = limits_of(run_dir, f"{job_id}.0")
        self._run_dir, self._job_id = run_dir, job_id
        self._pid = script.pid
        self._started = seconds_from_boot(script)
        self._family = family
        self._warned = False
        self._ended_at: float | None = None

    @property
    def ended(self) -> bool:
        """Whether the time limit ended the job."""
        return self._ended_at is not None

    def enforce(self) -> None:
        """Send the warning, SIGTERM or SIGKILL if it is due; the job's script must be alive."""
        if self._limit_s is None:
            return
        left = self._started + self._limit_s - time.clock_gettime(time.CLOCK_BOOTTIME)
        if self._ended_at is not None:
            self._kill_in_time(self._ended_at)
        elif left <= 0:
            self._ended_at = time.monotonic()
            # An attempt without a folder has no claim yet, so no verdict will read the mark.
            run = RunFolder(self._run_dir)
            attempt_dir = run.attempt_dir(run.newest_attempt(self._job_id) or f"{self._job_id}.0")
            if attempt_dir.is_dir():
                write_text(attempt_dir / MARK, "the time limit was reached\n")
            self._signal(signal.SIGTERM)
        elif self._warning_s and left <= self._warning_s and not self._warned:
            self._warned = True
            self._signal(signal.SIGUSR1)

    def _kill_in_time(self, ended_at: float) -> None:
        if time.monotonic() > ended_at + KILL_WAIT_S:
            for process in self._family():
                with suppress(psutil.NoSuchProcess):
                    process.kill()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._pid, number)


def seconds_from_boot(process: psutil.Process) -> float:
    """Return the start of a process in seconds since boot.

    Its date has a resolution of one second and changes with the machine's clock.
    """
    return process.create_time() - psutil.boot_time()

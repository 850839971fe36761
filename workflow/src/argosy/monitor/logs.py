"""Prints or follows the logs of a run's newest attempt."""

import os
import sys
import time
from pathlib import Path
from typing import BinaryIO

from argosy.monitor.jobs import job_logs, newest_job
from argosy.monitor.sites import find_run
from argosy.monitor.study import Study
from argosy.run_folder.folder import RunFolder, by_number
from argosy.run_folder.growing_log import GrowingLog
from argosy.runtime.contract.layout import RANK_LOGS
from argosy_common.errors import ArgosyError, some
from argosy_common.reading import NotReadError, site_of

PAUSE_S = 0.5
ALL = "all"
JOB = "job"


def show_log(run: str, *, rank: int | None, node: int | None, job: bool, follow: bool) -> None:
    """Run the command; an interrupt or a closed pipe ends it quietly.

    Raises:
        ArgosyError: if the log is ambiguous or missing.
    """
    folder = find_run(run)
    log = Log(folder, kind_of(rank, node, job))
    try:
        if follow:
            log.follow(sys.stdout.buffer, Study(site_of(folder)))
        else:
            log.print(sys.stdout.buffer)
    except NotReadError as problem:
        raise ArgosyError(f"{problem}, so it is not shown") from None
    except KeyboardInterrupt:
        return


class Log:
    """One log of a run's newest attempt; `kind` is `all`, `job`, `node-<n>` or `rank-<r>`.

    The output of each rank, and of each command beside it, is stored once, in its own file. `all` is the
    job's log followed by these.
    """

    def __init__(self, folder: Path, kind: str = ALL) -> None:
        self._folder = folder
        self._kind = kind

    @property
    def path(self) -> Path | None:
        """Path of the log; before the job writes one, path of the scheduler's log; None before both."""
        run = RunFolder(self._folder)
        job = newest_job(run, None)
        if self._kind in (ALL, JOB):
            paths = job_logs(run, job)
        else:
            paths = [_log_file(run, job.attempt, self._kind)] if job and job.attempt else []
        # Opening it later refuses anything but a regular file.
        return next((path for path in paths if os.path.lexists(path)), None)

    @property
    def parts(self) -> list[GrowingLog]:
        """The files of this log."""
        path = self.path
        if path is None:
            return []
        top = site_of(self._folder)
        return [
            GrowingLog(path, top),
            *(GrowingLog(each, top, _prefix(each)) for each in self._printed(path)),
        ]

    def _printed(self, path: Path) -> list[Path]:
        """Return the logs of ranks, and of commands beside them, if they belong to the log `path`."""
        if self._kind != ALL or path.stem != JOB:
            return []
        logs = RunFolder(self._folder).log_files(path.parent.name)
        printed = [each for each in logs if each.parent.name == RANK_LOGS]
        return sorted(printed, key=lambda each: by_number(each.name))

    def print(self, out: BinaryIO) -> None:
        """Copy the log to `out`.

        Raises:
            ArgosyError: if there is none; NotReadError: if it is not a regular file.
        """
        parts = self.parts
        if not parts:
            raise ArgosyError(self._why_missing())
        for part in parts:
            part.copy(out, ended=True)
            part.end_line(out)

    def follow(self, out: BinaryIO, study: Study) -> None:
        """Copy the log to `out` as it grows, until the run has ended.

        A verdict alone is no end: the run may restart, or its job return to the queue. A run without a
        verdict ends with its job.
        """
        shown: dict[Path, GrowingLog] = {}
        ended = False
        if self.path is None:
            print(f"{self._why_missing()}; waiting for it", file=sys.stderr)
        while not ended:
            # Read before copying, so that everything written before the end is copied.
            ended = study.look_at_run(self._folder, PAUSE_S).ended
            for part in self.parts:
                shown.setdefault(part.path, part).copy(out, ended)
            if not ended:
                time.sleep(PAUSE_S)

    def _why_missing(self) -> str:
        name = "/".join(self._folder.parts[-2:])
        run = RunFolder(self._folder)
        job = newest_job(run, None)
        if job is None:
            return f"{name}: no log: the run has not started"
        there = sorted({path.stem for path in run.log_files(job.attempt or "-")})
        has = f"; there are {some(there)}" if there else ""
        return f"{name}: there is no log of {JOB if self._kind == ALL else self._kind} yet{has}"


def kind_of(rank: int | None, node: int | None, job: bool) -> str:
    """Return the name of the log that the options select.

    Raises:
        ArgosyError: if they select several.
    """
    if (rank is not None) + (node is not None) + job > 1:
        raise ArgosyError("give at most one of --rank, --node, --job")
    if rank is not None:
        return f"rank-{rank}"
    if node is not None:
        return f"node-{node}"
    return JOB if job else ALL


def _log_file(run: RunFolder, attempt: str, name: str) -> Path:
    """Return the log of a rank or a node."""
    kind, _, number = name.partition("-")
    if kind == "rank":
        return run.rank_log(attempt, int(number))
    return run.logs(attempt) / f"{name}.log"


def _prefix(path: Path) -> bytes:
    return b"[%s] " % path.stem.removeprefix("rank-").encode()

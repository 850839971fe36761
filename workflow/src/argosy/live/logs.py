"""A run's logs: those of its newest execution, printed or followed."""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from argosy.errors import ArgosyError
from argosy.live.folders import RunFiles, run_folders, site_folders
from argosy.live.newest import newest_job

PAUSE_S = 0.5
CHUNK_BYTES = 1 << 20
MOST_CANDIDATES = 8
JOB = "job"


def show_log(run: str, *, rank: int | None, node: int | None, job: bool, follow: bool) -> None:
    """What the command does; it ends quietly when the user, or the next program, has seen enough.

    Raises:
        ArgosyError: when it is not clear which log, or there is none.
    """
    log = Log(find_run(run), kind_of(rank, node, job))
    try:
        (log.follow if follow else log.print)(sys.stdout.buffer)
    except KeyboardInterrupt:
        return
    except BrokenPipeError:
        # Or Python would complain again when it leaves.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def find_run(text: str) -> Path:
    """The folder of the run that `text` names, or is a part of the name of.

    Raises:
        ArgosyError: with the candidates, when it is none or several.
    """
    sites = site_folders()
    runs = {
        run.relative_to(site.parent).as_posix(): run for site in sites for run in run_folders(site)
    }
    wanted = text.strip("/").removeprefix("results/")
    if not runs:
        raise ArgosyError("results: no run is planned here; run: snakemake")
    exact = [name for name in runs if f"/{name}".endswith(f"/{wanted}")]
    found = exact or [name for name in runs if wanted in name]
    if len(found) == 1:
        return runs[found[0]].resolve()
    if found:
        raise ArgosyError(f"{text}: which of {_some(found)}?")
    raise ArgosyError(f"{text}: no such run; there are {_some(list(runs))}")


def _some(names: Sequence[str]) -> str:
    """Names without the site, where all have the same."""
    if len({name.partition("/")[0] for name in names}) == 1:
        names = [name.partition("/")[2] for name in names]
    more = len(names) - MOST_CANDIDATES
    return ", ".join(names[:MOST_CANDIDATES]) + (f" and {more} more" if more > 0 else "")


class Log:
    """One log of a run's newest execution; `kind` is `job`, `node-<n>` or `rank-<r>`."""

    def __init__(self, folder: Path, kind: str = JOB) -> None:
        self._folder = folder
        self._kind = kind

    @property
    def path(self) -> Path | None:
        """Where it is; as long as the job has not begun its own log, Slurm's. None: nowhere yet."""
        run = RunFiles.read(self._folder)
        job = newest_job(run, None)
        paths = []
        if job and job.incarnation:
            paths.append(run.logs(job.incarnation) / f"{self._kind}.log")
        if self._kind == JOB:
            # Of a job submitted by hand that did not get far, this log is the only trace.
            paths.append(
                run.slurm_log(job.job_id) if job else max(run.slurm_logs, default=Path(), key=_time)
            )
        return next((path for path in paths if path.is_file()), None)

    @property
    def ended(self) -> bool:
        """Whether the newest execution has its verdict."""
        run = RunFiles.read(self._folder)
        job = newest_job(run, None)
        return job is not None and run.verdict(job.incarnation) is not None

    def print(self, out: BinaryIO) -> None:
        """Copy what there is.

        Raises:
            ArgosyError: when there is nothing.
        """
        path = self.path
        if path is None:
            raise ArgosyError(self._missing())
        _copy(path, 0, out)

    def follow(self, out: BinaryIO) -> None:
        """Copy what there is and what comes, until the run has its verdict."""
        last, place, ended = None, 0, False
        if self.path is None:
            print(f"{self._missing()}; waiting for it", file=sys.stderr)
        while not ended:
            # Asked first: what was written until the verdict is still copied.
            ended = self.ended
            path = self.path
            if path != last:
                last, place = path, 0
            if path:
                place = _copy(path, place, out)
            if not ended:
                time.sleep(PAUSE_S)

    def _missing(self) -> str:
        name = "/".join(self._folder.parts[-2:])
        run = RunFiles.read(self._folder)
        job = newest_job(run, None)
        if job is None:
            return f"{name}: there is no log: it has not been started"
        there = sorted(path.stem for path in run.logs(job.incarnation or "-").glob("*.log"))
        has = f"; there are {_some(there)}" if there else ""
        return f"{name}: there is no log of {self._kind} yet{has}"


def kind_of(rank: int | None, node: int | None, job: bool) -> str:
    """The name of the log that the options ask for.

    Raises:
        ArgosyError: when they ask for several.
    """
    if (rank is not None) + (node is not None) + job > 1:
        raise ArgosyError("give one of --rank, --node and --job")
    if rank is not None:
        return f"rank-{rank}"
    return JOB if node is None else f"node-{node}"


def _time(path: Path) -> float:
    return path.stat().st_mtime


def _copy(path: Path, place: int, out: BinaryIO) -> int:
    """Copy a log from `place` on, and return where it ended."""
    with path.open("rb") as log:
        log.seek(place)
        while chunk := log.read(CHUNK_BYTES):
            out.write(chunk)
            place += len(chunk)
    out.flush()
    return place

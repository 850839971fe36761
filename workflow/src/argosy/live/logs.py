"""A run's logs: those of its newest execution, printed or followed."""

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from argosy.errors import ArgosyError
from argosy.files import rank_log
from argosy.live.folders import RunFiles, by_number, run_folders, site_folders
from argosy.live.newest import newest_job

PAUSE_S = 0.5
CHUNK_BYTES = 1 << 20
MOST_CANDIDATES = 8
ALL = "all"
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


@dataclass
class Part:
    """A file of a log, as far as it was shown; `prefix` is put before each of its lines."""

    path: Path
    prefix: bytes = b""
    place: int = 0
    _last: bytes = field(default=b"\n", init=False)

    def copy(self, out: BinaryIO, ended: bool) -> None:
        """Copy what came since; a line with a prefix is copied whole, or when the log has `ended`."""
        with self.path.open("rb") as log:
            log.seek(self.place)
            while chunk := log.read(CHUNK_BYTES):
                if self.prefix and not ended and len(chunk) < CHUNK_BYTES:
                    chunk = chunk[: chunk.rfind(b"\n") + 1]
                if not chunk:
                    break
                out.write(self._marked(chunk))
                self.place += len(chunk)
                self._last = chunk[-1:]
                log.seek(self.place)
        out.flush()

    def end_line(self, out: BinaryIO) -> None:
        """End the last line of a rank that ended within one, so that no other goes on with it."""
        if self.prefix and self._last != b"\n":
            out.write(b"\n")

    def _marked(self, chunk: bytes) -> bytes:
        if not self.prefix:
            return chunk
        body, end = (chunk[:-1], b"\n") if chunk.endswith(b"\n") else (chunk, b"")
        marked = body.replace(b"\n", b"\n" + self.prefix) + end
        return self.prefix + marked if self._last == b"\n" else marked


class Log:
    """One log of a run's newest execution; `kind` is `all`, `job`, `node-<n>` or `rank-<r>`.

    What ranks print is stored once, in a file for each. `all` is the job's own log with them.
    """

    def __init__(self, folder: Path, kind: str = ALL) -> None:
        self._folder = folder
        self._kind = kind

    @property
    def path(self) -> Path | None:
        """Where it is; as long as the job has not begun its own log, Slurm's. None: nowhere yet."""
        run = RunFiles.read(self._folder)
        job = newest_job(run, None)
        name = JOB if self._kind == ALL else self._kind
        paths = []
        if job and job.incarnation:
            paths.append(_log_file(run.logs(job.incarnation), name))
        if name == JOB:
            # Of a job submitted by hand that did not get far, this log is the only trace.
            paths.append(
                run.slurm_log(job.job_id) if job else max(run.slurm_logs, default=Path(), key=_time)
            )
        return next((path for path in paths if path.is_file()), None)

    @property
    def parts(self) -> list[Part]:
        """The files that it is made of."""
        path = self.path
        if path is None:
            return []
        ranks = _rank_logs(path.parent) if self._kind == ALL and path.stem == JOB else []
        return [Part(path), *(Part(each, _prefix(each)) for each in sorted(ranks, key=_by_number))]

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
        parts = self.parts
        if not parts:
            raise ArgosyError(self._missing())
        for part in parts:
            part.copy(out, ended=True)
            part.end_line(out)

    def follow(self, out: BinaryIO) -> None:
        """Copy what there is and what comes, until the run has its verdict."""
        shown: dict[Path, Part] = {}
        ended = False
        if self.path is None:
            print(f"{self._missing()}; waiting for it", file=sys.stderr)
        while not ended:
            # Asked first: what was written until the verdict is still copied.
            ended = self.ended
            for part in self.parts:
                shown.setdefault(part.path, part).copy(out, ended)
            if not ended:
                time.sleep(PAUSE_S)

    def _missing(self) -> str:
        name = "/".join(self._folder.parts[-2:])
        run = RunFiles.read(self._folder)
        job = newest_job(run, None)
        if job is None:
            return f"{name}: there is no log: it has not been started"
        logs = run.logs(job.incarnation or "-")
        there = sorted({path.stem for path in (*logs.glob("*.log"), *_rank_logs(logs))})
        has = f"; there are {_some(there)}" if there else ""
        return f"{name}: there is no log of {JOB if self._kind == ALL else self._kind} yet{has}"


def kind_of(rank: int | None, node: int | None, job: bool) -> str:
    """The name of the log that the options ask for.

    Raises:
        ArgosyError: when they ask for several.
    """
    if (rank is not None) + (node is not None) + job > 1:
        raise ArgosyError("give one of --rank, --node and --job")
    if rank is not None:
        return f"rank-{rank}"
    if node is not None:
        return f"node-{node}"
    return JOB if job else ALL


def _log_file(logs: Path, name: str) -> Path:
    """The file of a kind of log."""
    kind, _, number = name.partition("-")
    return rank_log(logs, int(number)) if kind == "rank" else logs / f"{name}.log"


def _rank_logs(logs: Path) -> list[Path]:
    """The files of what ranks printed."""
    return list(rank_log(logs, 0).parent.glob("rank-*.log"))


def _time(path: Path) -> float:
    return path.stat().st_mtime


def _prefix(path: Path) -> bytes:
    return b"[%s] " % path.stem.removeprefix("rank-").encode()


def _by_number(path: Path) -> list[tuple[str, int]]:
    return by_number(path.name)

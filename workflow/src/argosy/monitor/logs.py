"""Prints or follows the logs of a run's newest attempt."""

import codecs
import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from argosy.monitor.jobs import newest_job
from argosy.monitor.sites import find_run
from argosy.monitor.study import Study
from argosy.run_folder.folder import RunFolder, by_number
from argosy.runtime.contract.layout import RANK_LOGS
from argosy_common.errors import ArgosyError, coloured, some
from argosy_common.reading import NotReadError, open_regular, site_of

PAUSE_S = 0.5
CHUNK_BYTES = 1 << 20
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
    except KeyboardInterrupt:
        return


@dataclass
class Part:
    """A log file, and the number of bytes printed (`place`); `prefix` precedes each line."""

    path: Path
    top: Path
    prefix: bytes = b""
    place: int = 0
    _last: bytes = field(default=b"\n", init=False)
    _rest: str = field(default="", init=False)
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"), init=False
    )

    def copy(self, out: BinaryIO, ended: bool) -> None:
        """Copy new content; with a prefix only whole lines, unless the log has `ended`.

        Raises:
            ArgosyError: if it is not a readable log.
        """
        try:
            self._copy(out, ended)
        except NotReadError as problem:
            raise ArgosyError(f"{problem}, so it is not shown") from None

    def _copy(self, out: BinaryIO, ended: bool) -> None:
        with open_regular(self.path, self.top) as log:
            end = os.fstat(log.fileno()).st_size
            log.seek(self.place)
            # The next call copies content written meanwhile.
            while chunk := log.read(min(CHUNK_BYTES, max(0, end - self.place))):
                if self.prefix and not ended and len(chunk) < CHUNK_BYTES:
                    chunk = chunk[: chunk.rfind(b"\n") + 1]
                if not chunk:
                    break
                self.place += len(chunk)
                if shown := self._for_terminal(chunk):
                    out.write(self._with_prefix(shown))
                    self._last = shown[-1:]
                log.seek(self.place)
        out.flush()

    def end_line(self, out: BinaryIO) -> None:
        """End a rank's unfinished last line, so that the next rank's output starts on its own line."""
        if self.prefix and self._last != b"\n":
            out.write(b"\n")

    def _for_terminal(self, chunk: bytes) -> bytes:
        """Return the rest of the previous chunk and this one, without codes that control a terminal."""
        text, self._rest = coloured(self._rest + self._decoder.decode(chunk))
        return text.encode()

    def _with_prefix(self, chunk: bytes) -> bytes:
        if not self.prefix:
            return chunk
        body, end = (chunk[:-1], b"\n") if chunk.endswith(b"\n") else (chunk, b"")
        marked = body.replace(b"\n", b"\n" + self.prefix) + end
        return self.prefix + marked if self._last == b"\n" else marked


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
        name = JOB if self._kind == ALL else self._kind
        paths = []
        if job and job.attempt:
            paths.append(_log_file(run, job.attempt, name))
        if name == JOB:
            # For a job submitted by hand that failed early, this is the only log.
            paths += (
                [run.scheduler_log(job.job_id)]
                if job
                else sorted(run.scheduler_logs, key=_mtime)[-1:]
            )
        return next((path for path in paths if _is_there(path)), None)

    @property
    def parts(self) -> list[Part]:
        """The files of this log."""
        path = self.path
        if path is None:
            return []
        top = site_of(self._folder)
        return [Part(path, top), *(Part(each, top, _prefix(each)) for each in self._printed(path))]

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
            ArgosyError: if there is none.
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
        shown: dict[Path, Part] = {}
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
    """Return the file of a kind of log."""
    kind, _, number = name.partition("-")
    if kind == "rank":
        return run.rank_log(attempt, int(number))
    return run.logs(attempt) / f"{name}.log"


def _mtime(path: Path) -> float:
    with suppress(OSError):
        return path.lstat().st_mtime
    return 0.0


def _is_there(path: Path) -> bool:
    """Return whether the path exists; opening it later refuses anything but a regular file."""
    # A job id, and so its log's name, may contain characters that no file name has.
    with suppress(OSError, ValueError):
        path.lstat()
        return True
    return False


def _prefix(path: Path) -> bytes:
    return b"[%s] " % path.stem.removeprefix("rank-").encode()

"""Follows one job to its end: what becomes of it, and what it prints, as if it ran here."""

import codecs
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from argosy.errors import coloured
from argosy.reading import NotReadError, open_regular, site_of
from argosy.run_folder.folder import scheduler_log_of
from argosy.schedulers.base import Scheduler, State, Status

GLANCE_S = 0.5
"""How often the job's log is looked at; that costs the scheduler no question."""

_CHUNK = 1 << 16


def follow(
    scheduler: Scheduler, job_dir: Path, say: Callable[[str], None], out: BinaryIO
) -> Status:
    """Attach to the job of `job_dir` or submit it, pass on its log to `out`, and return how it ended."""
    scheduler.submit([job_dir])
    tail: _Tail | None = None
    told = ""
    while True:
        status = scheduler.poll()[job_dir]
        line = scheduler.trouble or _describe(status)
        if line != told:
            say(line)
            told = line
        if status.job_id and tail is None:
            tail = _Tail(scheduler_log_of(job_dir, status.job_id), out)
        _wait(scheduler.pause_s if status.state.active else 0, tail)
        if not status.state.active:
            return status


def _describe(status: Status) -> str:
    if status.state is State.REFUSED:
        return "the scheduler refuses the job"
    reason = f" ({status.reason})" if status.reason else ""
    where = f" on {status.nodes}" if status.nodes and status.state is State.RUNNING else ""
    job = f"job {status.job_id}" if status.job_id else "job"
    return f"{job}: {status.state.value}{where}{reason}"


def _wait(seconds: float, tail: "_Tail | None") -> None:
    """Wait for so long, and show what is printed meanwhile."""
    until = time.monotonic() + seconds
    while True:
        if tail:
            tail.show()
        left = until - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(GLANCE_S, left))


class _Tail:
    """The part of a growing file that was not shown yet."""

    def __init__(self, path: Path, out: BinaryIO) -> None:
        self._path = path
        self._out = out
        self._shown = 0
        self._rest = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def show(self) -> None:
        """Pass on what is new."""
        try:
            # Opened anew: otherwise another node's writing may not be seen for long.
            with open_regular(self._path, site_of(self._path.parents[1])) as file:
                file.seek(self._shown)
                while data := file.read(_CHUNK):
                    text, self._rest = coloured(self._rest + self._decoder.decode(data))
                    self._out.write(text.encode())
                    self._shown += len(data)
        except (FileNotFoundError, NotReadError):
            return
        self._out.flush()

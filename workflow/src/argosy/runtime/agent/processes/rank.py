"""One rank of this node: its start, signals, and the cause of its end."""

from __future__ import annotations

import contextlib
import glob
import os
import signal
import time
from typing import Callable, Mapping

from ...contract import layout
from ..coordination.failure import (
    ABORT,
    EXIT,
    LOST,
    OTHER,
    Failure,
    Finished,
    ended_by_signal,
    ended_with_code,
    has_lost_another,
    last_lines,
    raised_at_last,
    unreachable,
)
from ..hangs.processes import Process, caught
from ..settings import MeetingPoint, Settings, filled_words
from ..status import RankStatus
from .launch import environment_of, start, workdir
from .memory_limits import memory_kills, why_killed
from .mpi_tasks import MpiTask
from .output import Console, OutputPump, Trouble
from .warning import RankWarning, members

# Exit code of argosy_steps on a full disk (EX_IOERR of sysexits.h).
_STEPS_EXIT = 74
# Exit code of a program that has saved a checkpoint, to be continued (EX_TEMPFAIL).
_INTERRUPTED_EXIT = 75
# Seconds after a warning in which an end counts as its consequence.
_AT_ONCE = 30.0
# Seconds by which a rank may react to a signal before its agent does.
_QUICKER = 2.0
# Seconds by which the clock of a file server may be behind.
_SKEW = 2.0
_LEFT = (
    "it is unknown whether the program was done: it handles the warning itself and ended with 0 "
    "{seconds:.0f} s after it; with argosy_steps.Recorder() 0 means done, and 75 stopped early "
    "(docs/writing-a-training-program.md); or raise resources.time"
)
_LONGEST_TEXT = 200
# Seconds to wait for the last output.
DRAIN_TIME, _LAST_LINES_TIME = 2.0, 0.5


class Rank:
    """One running rank, with `more` variables; `seen` has callbacks for lines, by rank."""

    def __init__(
        self,
        settings: Settings,
        local_rank: int,
        meeting: MeetingPoint,
        more: Mapping[str, str],
        *,
        task: MpiTask | None = None,
        console: Console,
        trouble: Trouble,
        seen: Mapping[int, Callable[[list[bytes]], None]],
    ) -> None:
        self._settings = settings
        self.number = settings.node * settings.ranks_per_node + local_rank
        """Among all ranks of the job."""
        self.status = RankStatus(self.number, local_rank)
        self.log = os.path.join(settings.logs, layout.rank_log(self.number))
        self.steps_file = settings.record(layout.rank_steps(self.number))
        self.lines_file = settings.record(layout.rank_lines(self.number))
        """Its records other than steps."""
        is_searched = self.number in settings.searched_ranks
        self.printed_file = settings.record(layout.printed(self.number)) if is_searched else ""
        """Its printed throughput; empty: its output is not searched."""
        given = task.variables if task else {}
        environment = {**given, **environment_of(settings, local_rank, meeting), **more}
        folder = workdir(settings)
        if folder:
            environment["PWD"] = folder
        before = filled_words(settings, settings.run.start or (), local_rank, meeting)
        self.started_as = [*before, *settings.run.command]
        output, own_end = os.pipe()
        try:
            self.process = start(
                self.started_as,
                environment,
                folder,
                settings.in_container,
                output=own_end,
                inherited=task.descriptors if task else (),
            )
        finally:
            os.close(own_end)
        if task:
            task.release()
        self.pid = self.process.pid
        self.pump = OutputPump(
            self.number,
            output,
            self.log,
            console=console if settings.echo else None,
            trouble=trouble,
            lines_seen=seen.get(self.number),
        )
        self._memory_kills = memory_kills()
        self._warning = RankWarning()
        self._ended: float | None = None
        self._asked_to_end = False
        self._signalled: float | None = None

    @property
    def running(self) -> bool:
        return self.status.ended is None

    def ask_to_end(self) -> None:
        """Send SIGTERM to the rank and what it started, unless it has ended."""
        if self.status.ended is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill the rank unless it has ended; what it started is ended after it."""
        if self.status.ended is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, signal.SIGKILL)

    def warn(self, everybody: dict[int, Process]) -> bool:
        """Warn the rank's programs that handle the signal; return whether its status has changed."""
        if self.status.ended is not None:
            return False
        before = self.status.heard
        self._warning.send(self.pid, everybody)
        self._note_warning()
        self.status.heard = self._warning.heard is not None
        return self.status.heard != before

    def _note_warning(self) -> None:
        """Record a warning whose file the rank's recorder may find before this agent."""
        if self._settings.run.warning_s is None or not os.path.exists(self.steps_file):
            return
        for path in (self._settings.warning, self._settings.record(layout.WARNED)):
            with contextlib.suppress(OSError):
                self._warning.note(os.stat(path).st_mtime)

    def note_signal(self, number: int, everybody: dict[int, Process]) -> None:
        """Record a signal that asks all processes to end, if a program of the rank handles it.

        The rank may have ended before its agent got the signal.
        """
        if self._ended is None:
            found = any(number in caught(each.pid) for each in members(everybody, self.pid))
        else:
            found = time.monotonic() < self._ended + _QUICKER
        self._signalled = time.monotonic()
        if found:
            self._note_end_asked_for()

    def _note_end_asked_for(self) -> None:
        self._asked_to_end = True
        self._warning.note(time.time())

    def collect(self) -> None:
        """Reap the rank, which has ended."""
        code = self.process.wait()
        self.status.exit_code = code if code >= 0 else None
        self.status.signal = -code if code < 0 else None
        self.status.ended = time.time()
        self._ended = time.monotonic()
        # A rank that was ending for the signal may have removed its handler before the check.
        if code == 0 and self._signalled and self._ended < self._signalled + _QUICKER:
            self._note_end_asked_for()
        self._note_warning()
        self.status.unproven_s = self._unproven_after()

    @property
    def interrupted(self) -> bool:
        """Whether the rank ended early, to be continued.

        The rank exits with 75, or with 0 soon after a signal that it handles, like Lightning. Or it ends
        after the warning and a checkpoint: torchrun exits with 1 if its workers exit with 75.
        """
        if self._settings.run.warning_s is None:
            return False
        seconds, code = self._left_after(), self.status.exit_code
        is_at_once = seconds is not None and seconds <= _AT_ONCE
        is_left = is_at_once or (seconds is not None and code == 0)
        is_asked = self._asked_to_end and is_at_once and code == 0
        return code == _INTERRUPTED_EXIT or is_asked or (is_left and self._has_saved())

    def left_unfinished(self) -> Failure | None:
        """Return the failure of a rank that ended soon after the warning without a checkpoint."""
        seconds = self.status.unproven_s
        if seconds is None or seconds > _AT_ONCE:
            return None
        cause = _LEFT.format(seconds=seconds)
        return Failure(self._settings.node, self.number, cause, self.status.ended or time.time())

    def _unproven_after(self) -> float | None:
        """Return the seconds from the warning to an exit code 0 that may mean done or stopped early."""
        return None if self.status.exit_code or self.interrupted else self._left_after()

    def _left_after(self) -> float | None:
        """Return the seconds from the warning to an end that may follow from it; None: it does not.

        A program that handles the warning itself may exit with 0 although it is unfinished. With a
        recorder, it exits with 75 then.
        """
        heard, ended, code = self._warning.heard, self._ended, self.status.exit_code
        if heard is None or ended is None or code is None:
            return None
        return None if code == 0 and os.path.exists(self.steps_file) else ended - heard

    def _has_saved(self) -> bool:
        """Return whether this attempt has saved a checkpoint since the warning."""
        top = glob.escape(os.path.join(self._settings.checkpoints, self._settings.attempt))
        found = glob.glob(os.path.join(top, "step-*", layout.CHECKPOINT))
        with contextlib.suppress(OSError):
            return any(os.stat(path).st_mtime >= self._warning.since - _SKEW for path in found)
        return False

    def failure(self) -> Failure | None:
        """Return the failure of a rank that has not ended well."""
        status = self.status
        if self.interrupted:
            return None
        if status.signal is not None:
            cause, kind = ended_by_signal(status.signal)
            if status.signal == signal.SIGKILL:
                cause += self._want_of_memory()
        elif status.exit_code:
            cause, kind = ended_with_code(status.exit_code)
            # The kernel may have killed a worker, and the rank ended for that.
            cause += self._want_of_memory(of_job_alone=True)
            if status.exit_code == _STEPS_EXIT and self._steps_word():
                cause, kind = self._steps_word(), OTHER
        else:
            return None
        if kind in (ABORT, EXIT):
            said = self._last_lines()
            where = unreachable(said)
            cause += f": {where}" if where else ""
            # Separate programs lose connections of others than ranks, such as a server of data.
            kind = LOST if self._settings.run.has_to_meet and has_lost_another(said) else kind
        return Failure(self._settings.node, status.rank, cause, status.ended or time.time(), kind)

    def _want_of_memory(self, of_job_alone: bool = False) -> str:
        now = memory_kills()
        if of_job_alone and not now.visible:
            return ""
        why = why_killed(self._memory_kills, now)
        return f": {why}" if why else ""

    def _steps_word(self) -> str:
        self.pump.join(DRAIN_TIME)
        return self.pump.steps_word

    def note_exception(self) -> None:
        """Note an exception that was printed last though it ended well, as a pipe of a shell does."""
        if self.status.exit_code == 0:
            self.status.raised = raised_at_last(self._last_lines())[:_LONGEST_TEXT] or None

    def _last_lines(self) -> str:
        self.pump.join(_LAST_LINES_TIME)
        return last_lines(self.log)

    @property
    def finished(self) -> Finished | None:
        """The rank's end, if its exit code is 0."""
        if self.status.exit_code != 0 or self.status.ended is None:
            return None
        return Finished(self._settings.node, self.number, self.status.ended)

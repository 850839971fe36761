"""All ranks of one node, from start to end."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Callable, Mapping, Sequence

from ...contract import layout
from ..coordination.failure import Failure, Finished
from ..files import open_for_append
from ..hangs.processes import processes
from ..settings import MeetingPoint, Settings
from ..status import RankStatus
from ..transport.open_files import OpenFiles
from .children import Guard, end_sessions, reap
from .mpi_tasks import MpiTasks
from .output import Console, Trouble
from .placement import held, places_of
from .rank import DRAIN_TIME, Rank

# Seconds from SIGTERM to SIGKILL, and from SIGKILL to giving up.
GRACE = 2.0
_KILL_TIME = 3.0


class Ranks:
    """All ranks of this node."""

    def __init__(
        self, settings: Settings, guard: Guard, open_files: OpenFiles, tasks: MpiTasks
    ) -> None:
        self._settings = settings
        self._guard = guard
        self._open_files = open_files
        self._ranks: list[Rank] = []
        self._tasks = tasks
        self.left_behind: list[str] = []
        """Names of processes that ran on though their rank had ended well, and were ended."""
        self._stopped: float | None = None

    @property
    def watched(self) -> Sequence[Rank]:
        """The ranks that have started."""
        return self._ranks

    @property
    def statuses(self) -> list[RankStatus]:
        for rank in self._ranks:
            rank.status.not_finite = rank.pump.losses.found
        return [rank.status for rank in self._ranks]

    @property
    def running(self) -> bool:
        """Whether a rank still runs; ranks that survive SIGKILL are given up."""
        ended = [rank.status.ended for rank in self._ranks if rank.status.ended is not None]
        if len(ended) == len(self._ranks):
            return self._stopped is None and self._tasks.settles(max(ended, default=0.0))
        return self._stopped is None or time.monotonic() < self._stopped + GRACE + _KILL_TIME

    @property
    def finished(self) -> tuple[Finished, ...]:
        """The ranks that ended with exit code 0."""
        return tuple(rank.finished for rank in self._ranks if rank.finished)

    @property
    def interrupted(self) -> bool:
        """Whether a rank ended early, to be continued."""
        return any(rank.interrupted for rank in self._ranks)

    def warn(self) -> bool:
        """Ask the ranks to save a checkpoint and end; return whether a status has changed.

        Call this repeatedly: programs may install their handlers later.
        """
        everybody = processes()
        changed = [rank.warn(everybody) for rank in self._ranks]
        return any(changed)

    def note_signal(self, number: int) -> None:
        """Record a signal from outside that asks all processes to end."""
        everybody = processes()
        for rank in self._ranks:
            rank.note_signal(number, everybody)

    @property
    def unheard(self) -> list[int]:
        """The running ranks that were warned and have no process that handles the warning."""
        return [rank.number for rank in self._ranks if rank.running and rank.status.heard is False]

    def left_unfinished(self) -> Failure | None:
        """Return the failure of the first rank that ended after the warning without a checkpoint."""
        return next(filter(None, (rank.left_unfinished() for rank in self._ranks)), None)

    def start(
        self,
        meeting: MeetingPoint,
        console: Console,
        trouble: Trouble,
        seen: Mapping[int, Callable[[list[bytes]], None]],
        environment: Mapping[str, str],
    ) -> None:
        """Start all ranks, with `environment` added; `seen` has callbacks for lines, by rank.

        Raises StartError; earlier ranks then run.
        """
        if self._settings.run.timeline and self._settings.node == 0:
            # Horovod would make the file readable for all users.
            with contextlib.suppress(OSError):
                os.close(open_for_append(self._settings.record(layout.TIMELINE)))
        run, places = self._settings.run, places_of(self._settings, console.say)
        for local_rank in self._settings.local_ranks:
            place, more = places[local_rank] if places else None, {**environment}
            if place and "OMP_NUM_THREADS" not in run.rank_environment:
                more["OMP_NUM_THREADS"] = str(min(run.cpus_per_rank or 1, place.cores))
            with self._open_files.as_before(), held(place):
                rank = Rank(
                    self._settings,
                    local_rank,
                    meeting,
                    more,
                    task=self._tasks.of(local_rank),
                    console=console,
                    trouble=trouble,
                    seen=seen,
                )
            rank.status.cpus = place.text if place else None
            self._open_files.give_back(rank.process.pid)
            self._guard.add(rank.process.pid)
            self._ranks.append(rank)
            rank.pump.start()

    def collect_ended(self, others: Mapping[int, Callable[[], object]]) -> list[Rank]:
        """Reap ended children and return the ranks among them; `others` has callbacks by pid."""
        running = [rank for rank in self._ranks if rank.status.ended is None]
        reap({**others, **{rank.process.pid: rank.collect for rank in running}})
        ended = [rank for rank in running if rank.status.ended is not None]
        well = {rank.pid for rank in ended if rank.finished}
        self.left_behind += end_sessions(well)
        end_sessions({rank.pid for rank in ended} - well)
        for rank in ended:
            self._guard.remove(rank.process.pid)
        return ended

    def stop(self) -> None:
        """Send SIGTERM to the ranks, and SIGKILL after `GRACE` seconds; call this repeatedly."""
        if self._stopped is None:
            self._stopped = time.monotonic()
            for rank in self._ranks:
                rank.ask_to_end()
        elif time.monotonic() >= self._stopped + GRACE:
            for rank in self._ranks:
                rank.kill()

    def drain(self) -> None:
        """Wait up to `DRAIN_TIME` seconds until the output of the ended ranks is written."""
        deadline = time.monotonic() + DRAIN_TIME
        for rank in self._ranks:
            rank.pump.join(max(0.0, deadline - time.monotonic()))
            rank.note_exception()

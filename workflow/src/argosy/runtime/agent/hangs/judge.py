"""Decides on the head when to inspect a silent job, and whether it hangs.

A run hangs if there is no sign of life for a while, and then several inspections find every rank at the
same place without progress. A single sign of progress starts the detection again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Sequence

from ..coordination.failure import HUNG, Failure
from .places import ENDED, WAITS, WORKS, Place, sentence

if TYPE_CHECKING:
    from ..transport.messages import Report

LEAST = 60.0
"""Seconds of silence before an inspection, unless the experiment sets them."""
LOOKS, APART = 3, 6.0
"""Number of inspections that must find all ranks at the same places, and seconds between them."""
CERTAIN = 15.0
"""Seconds of silence before an inspection if there is evidence: a rank has ended, or Horovod misses one."""
BEFORE_THE_END = 20.0
"""Seconds before the time limit at which a silent job is inspected once, for the report."""
_STEPS = 10
_LONGEST_SILENCES = 2
# Seconds for nodes to complete an inspection.
_LOOK_TIME = 60.0
_BUSY = "its ranks were busy: raise resources.time if the program is slow and not stuck"
# Most seconds without a report that count as silence: reports may be late, and the head may be stopped.
_LONGEST_BEAT = 5.0


@dataclass
class _Node:
    report: Report | None = None
    at: float = 0.0
    looked: int = 0
    places: tuple[Place, ...] = ()

    @property
    def runs(self) -> bool:
        return self.report is None or not self.report.ended

    def quiet(self, clock: float) -> float:
        return (self.report.quiet if self.report else 0.0) + min(clock - self.at, _LONGEST_BEAT)


class HangJudge:
    """Tracks the silence of each node. Not thread-safe.

    Args:
        nodes: the number of nodes.
        timeout: the experiment's limit of silence in seconds; 0: none; None: choose automatically.
        limit: the monotonic time of the job's end; None: unknown.
    """

    def __init__(self, nodes: int, timeout: float | None, limit: float | None = None) -> None:
        self._nodes = [_Node() for _ in range(nodes)]
        self._timeout = timeout
        self._limit = limit
        self._longest = self._quiet = 0.0
        self._next = self._asked = 0.0
        self._number = self._still = 0
        self._seen: tuple[tuple[int, str, str], ...] = ()
        self._at_the_end = False
        self._found = ""
        self.look = 0
        """Number of the current inspection; 0: none."""

    @property
    def silence(self) -> str:
        """Duration of the silence, and the ranks' places; empty if a rank made progress before the end."""
        return self._found and f"silent for {self._quiet:.0f} s; {self._found}"

    @property
    def _reports(self) -> Sequence[Report]:
        return [each.report for each in self._nodes if each.report]

    def note(self, report: Report, clock: float) -> None:
        node = self._nodes[report.node]
        node.report, node.at = report, clock
        if report.looked > node.looked:
            node.looked, node.places = report.looked, report.places

    def judge(self, clock: float) -> Failure | None:
        """Return the failure of a hanging job; call this with each report."""
        running = [each for each in self._nodes if each.runs and each.report]
        if not running or self._timeout == 0:
            return None
        quiet = min(each.quiet(clock) for each in running)
        if quiet < self._quiet - _LONGEST_BEAT:
            self._longest = max(self._longest, self._quiet)
            self._begin_anew(0.0)
            self.look, self._found = 0, ""
        self._quiet = quiet
        if self.look:
            return self._end_look(clock)
        ends = self._limit is not None and clock >= self._limit - BEFORE_THE_END
        self._at_the_end = ends and quiet >= CERTAIN
        if self._at_the_end:
            self._limit = None
        if self._at_the_end or quiet >= max(self._next, self._patience()):
            self._number += 1
            self.look, self._asked = self._number, clock
        return None

    def _patience(self) -> float:
        """Return the seconds of silence before an inspection."""
        if self._timeout is not None:
            return self._timeout
        proof = any(each.finished for each in self._reports) or self._missing()
        return CERTAIN if proof else self._unexplained()

    def _unexplained(self) -> float:
        """Return the seconds of silence that the job's earlier pace does not explain."""
        pace = max((each.pace or 0.0 for each in self._reports), default=0.0)
        return max(LEAST, _STEPS * pace, _LONGEST_SILENCES * self._longest)

    def _end_look(self, clock: float) -> Failure | None:
        waiting = [each for each in self._nodes if each.looked < self.look]
        if waiting and clock < self._asked + _LOOK_TIME:
            return None
        places = tuple(
            place for each in self._nodes for place in each.places if each.looked == self.look
        )
        gets_on = not places or any(place.state == WORKS for place in places)
        self.look, self._found = 0, "" if gets_on else self._where(places)
        if places and gets_on and self._at_the_end and self._quiet >= LEAST:
            self._found = _BUSY
        if self._timeout is not None:
            return None if self._at_the_end else self._hang(places)
        if gets_on or any(each.runs for each in waiting):
            self._begin_anew(self._quiet + LEAST)
            return None
        # Compare digests, not lines: the line changes in an endless loop.
        seen = tuple((place.rank, place.state, place.stack) for place in places)
        self._still = self._still + 1 if seen == self._seen else 1
        self._seen, self._next = seen, self._quiet + APART
        if self._would_have_said(places):
            self._next = self._quiet + LEAST
            return None
        certain = self._still >= LOOKS - 1 and self._is_certain(places)
        over_time = self._still >= LOOKS and self._quiet >= self._unexplained()
        return self._hang(places) if certain or over_time else None

    def _begin_anew(self, at: float) -> None:
        self._seen, self._still, self._next = (), 0, at

    def _missing(self) -> set[int]:
        """Return the ranks that Horovod misses."""
        return {rank for report in self._reports for rank in report.missing}

    def _is_certain(self, places: Sequence[Place]) -> bool:
        """Return whether ranks wait for an ended rank, or all wait and Horovod misses each of them."""
        states = {place.state for place in places}
        circle = states == {WAITS} and self._missing() >= {place.rank for place in places}
        return circle or {ENDED, WAITS} <= states

    def _would_have_said(self, places: Sequence[Place]) -> bool:
        """Return whether all ranks wait in a checking Horovod that misses none of them."""
        return all(place.checked for place in places) and not self._missing()

    def _hang(self, places: Sequence[Place]) -> Failure:
        cause = (
            f"hang: no step, collective or output for {self._quiet:.0f} s: {self._where(places)}"
        )
        return Failure(None, None, cause, time.time(), HUNG)

    def _where(self, places: Sequence[Place]) -> str:
        said = sentence(places) or "no rank could be inspected"
        stalls = (f"; Horovod: {each.stall}" for each in self._reports if each.stall)
        return said + next(stalls, "")

"""The head's judgement of a silent job: when its ranks are looked at, and whether that is a hang."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..coordination.failure import HUNG, Failure
from .places import WORKS, Place, sentence

if TYPE_CHECKING:
    from ..transport.messages import Report

# Without a word of the experiment: seconds of silence before the ranks are looked at, at least; and at
# the start, when libraries are loaded and models compiled, or while a rank works.
LEAST = 60.0
PATIENT = 1800.0
_STEPS = 10
_LONGEST_SILENCES = 2
# Seconds that nodes have for a look.
_LOOK_TIME = 15.0
# A node's report may be late, and the head itself may have been stopped; that is not the ranks' silence.
_LONGEST_BEAT = 5.0


@dataclass
class _Node:
    quiet: float = 0.0
    at: float = 0.0
    pace: float | None = None
    looked: int = 0
    places: tuple[Place, ...] = ()
    stall: str = ""
    ended: bool = False


class HangJudge:
    """Knows how silent each node is. Not safe to call from several threads.

    Args:
        nodes: how many there are.
        timeout: what the experiment says, in seconds; 0: there is no hang; None: it says nothing.
    """

    def __init__(self, nodes: int, timeout: float | None) -> None:
        self._nodes = [_Node() for _ in range(nodes)]
        self._timeout = timeout
        self._longest = 0.0
        self._quiet = 0.0
        self._next_look: float | None = None
        self._asked = 0.0
        self._number = 0
        self.look = 0
        """The number of the look that is under way; 0: none is."""

    def note(self, report: Report, clock: float) -> None:
        """Take what a node says of its ranks."""
        node = self._nodes[report.node]
        node.quiet, node.at, node.pace = report.quiet, clock, report.pace
        node.ended |= report.ended
        if report.looked > node.looked:
            node.looked, node.places, node.stall = report.looked, report.places, report.stall

    def judge(self, clock: float) -> Failure | None:
        """Return the failure of a job that hangs; to be called with each report."""
        quiet = self._silence(clock)
        if quiet is None or self._timeout == 0:
            return None
        limit = self._limit()
        if quiet < self._quiet - _LONGEST_BEAT:
            # Somebody has given a sign of life; what was learned of that silence counts from now on.
            if self._paces():
                self._longest = max(self._longest, self._quiet)
            self._next_look, self.look = None, 0
        self._quiet = quiet
        if self.look:
            return self._end_look(quiet, limit, clock)
        if quiet >= (self._next_look or limit):
            self._number += 1
            self.look, self._asked = self._number, clock
        return None

    def _silence(self, clock: float) -> float | None:
        running = [node for node in self._nodes if not node.ended]
        if not running:
            return None
        return min(node.quiet + min(clock - node.at, _LONGEST_BEAT) for node in running)

    def _limit(self) -> float:
        """Return seconds of silence that the job's own past does not explain."""
        if self._timeout is not None:
            return self._timeout
        paces = self._paces()
        if not paces:
            return max(PATIENT, _LONGEST_SILENCES * self._longest)
        return max(LEAST, _STEPS * max(paces), _LONGEST_SILENCES * self._longest)

    def _paces(self) -> list[float]:
        return [node.pace for node in self._nodes if node.pace is not None]

    def _end_look(self, quiet: float, limit: float, clock: float) -> Failure | None:
        waiting = [node for node in self._nodes if node.looked < self.look]
        if waiting and clock < self._asked + _LOOK_TIME:
            return None
        looked = [node for node in self._nodes if node.looked == self.look]
        places = [place for node in looked for place in node.places]
        works = any(place.state == WORKS for place in places)
        if works and self._timeout is None and (not self._paces() or quiet < PATIENT):
            self.look, self._next_look = 0, quiet + limit
            return None
        return Failure(None, None, self._cause(quiet, places), time.time(), HUNG)

    def _cause(self, quiet: float, places: list[Place]) -> str:
        nothing = f"hang: no step, collective or output for {quiet:.0f} s"
        said = sentence(places) or "no rank could be looked at"
        stall = next((f"; Horovod: {node.stall}" for node in self._nodes if node.stall), "")
        return f"{nothing}: {said}{stall}"

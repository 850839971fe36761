"""A job that looks at nodes: what is known of it, and what it leaves."""

import re
import time
from dataclasses import dataclass, field
from pathlib import Path

from argosy.probe.looks import NodeLook, read_looks, read_problems
from argosy.probe.marks import Marks
from argosy.schedulers.base import State, Status
from argosy.schedulers.cluster_facts import LookJob

POLL_S = 1.0
SHOWN_LATE_S = 20.0
"""How long a shared file system may take to show what nodes wrote."""

NOTHING_KNOWN = Status(State.WAITING)

OF_LAUNCHER = re.compile(r"\w+: error: .*Exited with exit code \d+")
"""A launcher's last line says less than those of what it started."""


@dataclass(frozen=True)
class Looked:
    """What was learned of a kind of nodes from the inside; without all looks, why not.

    `is_fault`: the problem is of the site or the nodes, and no matter of waiting longer.
    """

    name: str
    looks: tuple[NodeLook, ...] = ()
    problem: str = ""
    is_fault: bool = False


@dataclass
class PendingLook:
    """A job that is to look at nodes, and for how long the scheduler has answered nothing about it.

    Its number is empty as long as the scheduler takes no more jobs.
    """

    name: str
    job: LookJob
    marks: Marks
    job_id: str = ""
    status: Status = NOTHING_KNOWN
    silent_s: float = 0.0
    began: float = field(default_factory=time.monotonic)

    @property
    def looks(self) -> list[NodeLook]:
        """What its nodes have written so far."""
        return read_looks(self.job.folder, self.job.most)

    @property
    def waited_s(self) -> float:
        """How long it has had, but for the time in which the scheduler answered nothing."""
        return time.monotonic() - self.began - self.silent_s

    @property
    def is_whole(self) -> bool:
        """Whether all nodes have written."""
        looks = self.looks
        return len(looks) >= max((look.nodes for look in looks), default=self.job.nodes)

    def collect(self) -> Looked:
        """Return what a job that has ended left, as soon as the file system shows it."""
        until = time.monotonic() + SHOWN_LATE_S
        log = self.job.folder / "job.log"
        while not self.is_whole and not log.exists() and time.monotonic() < until:
            time.sleep(POLL_S)
        looks = tuple(self.marks.checked(self.looks, SHOWN_LATE_S))
        if self.is_whole:
            return Looked(self.name, looks)
        return Looked(self.name, looks, self._why_not_all(log), is_fault=True)

    def _why_not_all(self, log: Path) -> str:
        """Return why a job that has ended left less than it should."""
        if said := read_problems(self.job.folder, self.job.most):
            return "; ".join(said)
        if not log.exists():
            where = self.job.folder
            return f"its job left nothing in {where}: nodes do not see it, or cannot write to it"
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        if own := [line for line in lines if line.startswith("argosy: ")]:
            return "; ".join(line.removeprefix("argosy: ") for line in dict.fromkeys(own))
        rest = [line for line in lines if not OF_LAUNCHER.search(line)] or lines
        return f"its job failed: {rest[-1].strip() if rest else 'it said nothing'}; see {log}"

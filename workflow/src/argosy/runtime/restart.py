"""Decides whether a failed run restarts within its job, from its last checkpoint, and on which nodes.

After the loss of a rank or node, the batch script starts itself again for the next attempt.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import Any, Sequence

from .agent.coordination.failure import ABORT, EXIT, LOST, SIGNAL, VANISHED, Failure
from .claim import newest_checkpoint
from .contract import files, layout
from .contract.attempt import Attempt
from .contract.run import RunSpec
from .node_reports import NodeReport

OF_A_LOSS = (SIGNAL, ABORT, EXIT, LOST, VANISHED)
"""Kinds of failures that a restart may fix: not hangs, full disks and commands that cannot start."""


@dataclass(frozen=True)
class Restart:
    """The next attempt, its nodes by their number in this attempt, and the steps done."""

    attempt: str
    nodes: tuple[int, ...]
    step: int

    def __str__(self) -> str:
        nodes = f"{len(self.nodes)} node{'s' if self.nodes[1:] else ''}"
        return f"restarting from step {self.step} on {nodes}"

    def record(self) -> dict[str, Any]:
        """Return the restart's entry in the verdict."""
        return {"attempt": self.attempt, "nodes": [*self.nodes], "step": self.step}

    def write(self, path: str) -> None:
        """Write a line for the script: attempt, number of nodes, and the nodes. Raises OSError."""
        words = [self.attempt, str(len(self.nodes)), *map(str, self.nodes)]
        files.write_text(path, " ".join(words) + "\n")


def restart_of(
    attempt: Attempt, run: RunSpec, failure: Failure | None, reports: Sequence[NodeReport]
) -> Restart | str:
    """Return the restart after a failed attempt, or the reason for none; "" if none can fix it."""
    if not run.restarts or failure is None or failure.kind not in OF_A_LOSS:
        return ""
    plan = hashlib.sha256(files.read_bytes(os.path.join(attempt.run_dir, layout.RUN))).hexdigest()
    found = newest_checkpoint(attempt.run_dir, plan)
    step = int(found[1]["step"]) if found else 0
    nodes, least = _nodes_left(run, reports), run.least_nodes or run.nodes
    refusals = (
        (any(each.has_killed for each in reports), "memory ran out, and would again"),
        (os.path.lexists(attempt.file(layout.WARNING)), "the job will end soon"),
        (
            layout.restarts_of(attempt.name) >= run.restarts,
            f"its restarts ({run.restarts}) are used up",
        ),
        (found is None, "it has saved no checkpoint"),
        (
            _is_repeated(attempt, failure, step),
            f"it failed the same way before, from the same checkpoint (step {step})",
        ),
        (len(nodes) < least, f"{len(nodes)} of its nodes are left, fewer than {least}"),
    )
    why = next((why for is_so, why in refusals if is_so), None)
    if why is None:
        return Restart(layout.next_attempt(attempt.name), nodes, step)
    return f"no restart: {why}"


def _nodes_left(run: RunSpec, reports: Sequence[NodeReport]) -> tuple[int, ...]:
    """Return the nodes for the restart: those that were not lost, if they suffice.

    A node whose agent was killed may be used again, and so may every node if the run needs all. The
    first node always counts: it runs the script.
    """
    least = run.least_nodes or run.nodes
    for nodes in (
        [report.node for report in reports if report.state != "lost" or report.node == 0],
        [report.node for report in reports if not report.silent or report.node == 0],
    ):
        if len(nodes) >= least:
            return tuple(nodes)
    return tuple(nodes if run.least_nodes else (report.node for report in reports))


def _is_repeated(attempt: Attempt, failure: Failure, step: int) -> bool:
    """Return whether the program failed the same way before, from the same checkpoint."""
    before = layout.attempt_before(attempt.name)
    continues = attempt.read(layout.CLAIM).get("continues")
    is_same_step = isinstance(continues, dict) and continues.get("step") == step
    if failure.kind not in (ABORT, EXIT) or not before or not is_same_step:
        return False
    earlier = Failure.read(Attempt(attempt.run_dir, before).read(layout.VERDICT).get("failure"))
    return earlier is not None and (earlier.rank, earlier.cause) == (failure.rank, failure.cause)

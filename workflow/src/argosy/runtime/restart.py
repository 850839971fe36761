"""Decides whether a failed run restarts within its job, from its last checkpoint, and on which nodes.

After the loss of a rank or node, the batch script starts itself again for the next attempt.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from .claim import newest_checkpoint
from .contract import files, layout
from .contract.run import RunSpec
from .node_reports import NodeReport

OF_A_LOSS = ("signal", "abort", "exit", "lost", "vanished")
"""Kinds of failures that a restart may fix: not hangs, full disks and commands that cannot start."""
_OF_THE_PROGRAM = ("abort", "exit")


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

    def write(self, attempt_dir: str) -> None:
        """Write a line for the script: attempt, number of nodes, and the nodes. Raises OSError."""
        words = [self.attempt, str(len(self.nodes)), *map(str, self.nodes)]
        files.write_text(os.path.join(attempt_dir, layout.RESTART), " ".join(words) + "\n")


def restart_of(
    run_dir: str,
    run: RunSpec,
    attempt: str,
    failure: Mapping[str, Any] | None,
    reports: Sequence[NodeReport],
) -> Restart | str:
    """Return the restart after a failed attempt, or the reason for none; "" if none can fix it."""
    if not run.restarts or failure is None or failure.get("kind") not in OF_A_LOSS:
        return ""
    attempt_dir = os.path.join(run_dir, layout.ATTEMPTS, attempt)
    plan = hashlib.sha256(files.read_bytes(os.path.join(run_dir, layout.RUN))).hexdigest()
    found = newest_checkpoint(run_dir, plan)
    step = int(found[1]["step"]) if found else 0
    nodes, least = _nodes_left(run, reports), run.least_nodes or run.nodes
    refusals = (
        (any(each.has_killed for each in reports), "memory ran out, and would again"),
        (os.path.lexists(os.path.join(attempt_dir, layout.WARNING)), "the job will end soon"),
        (layout.restarts_of(attempt) >= run.restarts, f"its restarts ({run.restarts}) are used up"),
        (found is None, "it has saved no checkpoint"),
        (
            _is_repeated(attempt_dir, failure, step),
            f"it failed the same way before, from the same checkpoint (step {step})",
        ),
        (len(nodes) < least, f"{len(nodes)} of its nodes are left, fewer than {least}"),
    )
    why = next((why for is_so, why in refusals if is_so), None)
    if why is None:
        return Restart(layout.next_attempt(attempt), nodes, step)
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


def _is_repeated(attempt_dir: str, failure: Mapping[str, Any], step: int) -> bool:
    """Return whether the program failed the same way before, from the same checkpoint."""
    if failure["kind"] not in _OF_THE_PROGRAM:
        return False
    continues = files.try_object(os.path.join(attempt_dir, layout.CLAIM)).get("continues")
    attempts, attempt = os.path.split(attempt_dir)
    before = layout.attempt_before(attempt)
    if not before or not isinstance(continues, dict) or continues.get("step") != step:
        return False
    verdict = files.try_object(os.path.join(attempts, before, layout.VERDICT))
    earlier = verdict.get("failure")
    return isinstance(earlier, dict) and all(
        earlier.get(key) == failure[key] for key in ("rank", "cause")
    )

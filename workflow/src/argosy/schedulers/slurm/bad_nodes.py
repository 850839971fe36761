"""Finds and avoids bad nodes, on which runs fail in a way that other nodes do not share.

Such a node is soon free again, so Slurm assigns one job after another to it. After two failures of a kind
on a node, later jobs avoid the node. If other nodes fail in the same way, the program is the likely cause.
"""

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path

from argosy.run_folder.folder import RunFolder
from argosy.schedulers.base import State, Status
from argosy.schedulers.slurm.answers import hostnames
from argosy.schedulers.slurm.commands import Patience, SlurmError, call
from argosy.schedulers.slurm.options import ScriptOptions
from argosy.schedulers.slurm.partitions import (
    NODE_QUESTION,
    Node,
    in_partition,
    read_nodes,
)

LEAST_FAILURES = 2
_CHANGING = re.compile(r"0x[0-9a-f]+|/\S+|\d{4,}")
"""Parts of a cause that differ between failures of one kind."""


class BadNodes:
    """Counts failures of this driver's runs by kind and node, and excludes bad nodes from its jobs."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._failures: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._healthy: set[str] = set()
        self._avoided: dict[str, str] = {}
        self._nodes: list[Node] = []

    def note(self, run_dir: Path, status: Status) -> None:
        """Record a run whose job has ended."""
        nodes = hostnames(status.nodes)
        run = RunFolder(run_dir)
        verdict = run.verdict(run.newest_attempt(status.job_id))
        if verdict and verdict.state == "completed":
            self._healthy.update(nodes)
            for failures in self._failures.values():
                # A completed run clears its nodes.
                for node in nodes:
                    failures.pop(node, None)
            return
        number, cause = 0 if len(nodes) == 1 else None, status.state.value
        if verdict:
            if verdict.state != "failed" or verdict.failure is None:
                return
            number, cause = verdict.failure.node, verdict.failure.cause
        elif status.state not in (State.FAILED, State.NODE_FAIL):
            return
        if number is not None and number < len(nodes):
            self._failures[_CHANGING.sub("", cause)][nodes[number]] += 1
            self._healthy.discard(nodes[number])

    def found(self) -> dict[str, str]:
        """Return the bad nodes, each with the kind of failure that only bad nodes have."""
        found = {}
        for kind, failures in self._failures.items():
            is_bad = all(count >= LEAST_FAILURES for count in failures.values())
            if is_bad and (len(failures) == 1 or len(self._healthy) > len(failures)):
                found.update(dict.fromkeys(failures, kind))
        return found

    def act(self, pending: Mapping[str, Path]) -> None:
        """Exclude the bad nodes found so far from pending jobs.

        Args:
            pending: the folders of the jobs' scripts, by job id.
        """
        found = self.found()
        if found.keys() == self._avoided.keys():
            return
        try:
            self._nodes = read_nodes(self._patience.ask(*NODE_QUESTION))
        except SlurmError as problem:
            names = ", ".join(sorted(found.keys() ^ self._avoided.keys()))
            _warn(f"{names}: sinfo fails, so jobs avoid the same nodes as before ({problem})")
            return
        for node in sorted(found.keys() - self._avoided.keys()):
            _warn(
                f"{node}: several runs failed on this node, but not on other nodes ({found[node]}): "
                "later jobs avoid it; `avoid_bad_nodes: false` in config.yaml or site.yaml turns that off"
            )
        for node in sorted(self._avoided.keys() - found.keys()):
            _warn(
                f"{node} is used again: runs fail in the same way on other nodes, or complete on it"
            )
        self._avoided = found
        try:
            for job_id, folder in pending.items():
                nodes = excluded(folder, found, self._nodes)
                call("scontrol", "update", f"jobid={job_id}", f"excnodelist={nodes}")
        except SlurmError as problem:
            _warn(f"jobs that are already pending may still get such a node: {problem}")

    def excluded(self, folder: Path) -> str:
        """Return the nodes to exclude from a script's job; empty if only the script's own."""
        return excluded(folder, self._avoided, self._nodes) if self._avoided else ""


def _warn(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def excluded(folder: Path, bad: Collection[str], nodes: list[Node]) -> str:
    """Return the option `exclude` of a script, with the bad nodes added if enough others are left.

    Args:
        folder: the script's folder.
        bad: names of bad nodes.
        nodes: the nodes of all partitions.
    """
    options: Mapping[str, str | None] = ScriptOptions(folder).values
    own = options.get("exclude") or ""
    here = [node for node in in_partition(options.get("partition"), nodes) if not node.away]
    out = {*bad, *hostnames(own)}
    left = [node for node in here if node.name not in out]
    if len(left) < int((options.get("nodes") or "1").split("-")[0]):
        return own
    return ",".join(filter(None, (own, *sorted(bad))))

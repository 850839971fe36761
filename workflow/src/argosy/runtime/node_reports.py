"""Reads status files of agents. Containers could have written them, so each value is checked."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Iterator, Mapping, TypeVar

from .agent.coordination.failure import Failure
from .contract import files, layout
from .contract.attempt import Attempt

_Value = TypeVar("_Value")
STATES = ("completed", "failed", "interrupted", "cancelled")
"""Final states of a node."""
_MOST_KILLS = 1 << 31
_MOST_LINES = 1 << 53
_COUNTS = ("lines", "matches", "values")
# Causes by which agents report that a node is silent: the node's own cause is better.
_ONLY_MISSED = ("its agent vanished", "its agent never started", "its agent runs on")


@dataclass(frozen=True)
class NodeReport:
    """The report on one node; `state` is ``lost`` if its agent wrote no final state."""

    node: int
    state: str
    host: str | None = None
    started: float | None = None
    ended: float | None = None
    failure: Failure | None = None
    log: str | None = None
    """Its log, relative to the run's folder."""
    silent: bool = False
    """Whether the launcher had to be ended because of it (watch_end.py)."""
    unheard: tuple[int, ...] = ()
    """Its ranks that were warned without a process that handles SIGUSR1."""
    unproven: Mapping[int, float] = field(default_factory=dict)
    """Seconds from the warning to exit code 0, of ranks that may be unfinished."""
    silence: str | None = None
    """The job's silence at its end, and its ranks' places, reported by the head."""
    has_killed: bool = False
    """Whether the kernel killed a process of the job on it for lack of memory."""
    metrics: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Counts of each metric: searched `lines`, `matches` and `values`."""
    left_behind: tuple[str, ...] = ()
    """Processes that its ranks left behind, which were killed."""
    raised: Mapping[int, str] = field(default_factory=dict)
    """Exceptions that ranks printed last, though they ended with exit code 0."""

    def concrete(self) -> bool:
        """Return whether the node has a failure other than another node's silence."""
        return self.failure is not None and not self.failure.cause.startswith(_ONLY_MISSED)


def read_reports(attempt: Attempt, nodes: int) -> list[NodeReport]:
    """Return the reports of all nodes."""
    attempt.list_records()
    not_started = attempt.read(layout.NOT_STARTED)
    silent = attempt.read(layout.LOST).get("nodes")
    return [
        replace(
            read_report(attempt, node, not_started, nodes),
            silent=isinstance(silent, list) and node in silent,
        )
        for node in range(nodes)
    ]


def read_report(
    attempt: Attempt, node: int, not_started: Mapping[str, Any], nodes: int
) -> NodeReport:
    """Return the report of one node; values of a wrong type count as missing."""
    log, status = find_log(attempt, node), attempt.status(node)
    if not status:
        return _never_begun(not_started, node, log)
    state, host = status.get("state"), files.text(status.get("host"), 255)
    started = files.number(status.get("started"))
    if not isinstance(state, str) or state not in STATES:
        return NodeReport(node, "lost", host, started, log=log, unheard=_unheard(status))
    return NodeReport(
        node=node,
        state=state,
        host=host,
        started=started,
        ended=files.number(status.get("ended")),
        failure=Failure.read(status.get("failure"), nodes),
        log=log,
        unheard=_unheard(status),
        unproven=_of_ranks(status, "unproven_s", files.number),
        raised=_of_ranks(status, "raised", lambda said: files.text(said) or None),
        silence=files.text(status.get("silence")),
        has_killed=bool(files.whole(status.get("killed_for_memory"), _MOST_KILLS)),
        metrics=_metrics(status.get("metrics")),
        left_behind=_names(status.get("left_behind")),
    )


def _names(said: object) -> tuple[str, ...]:
    return tuple(filter(None, map(files.text, said))) if isinstance(said, list) else ()


def _metrics(said: object) -> Mapping[str, Mapping[str, int]]:
    """Return the counts of each metric; invalid ones are 0."""
    return {
        name: {key: files.whole(each.get(key), _MOST_LINES) or 0 for key in _COUNTS}
        for name, each in (said.items() if isinstance(said, dict) else ())
        if isinstance(each, dict)
    }


def _unheard(status: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the ranks that were warned without a handler."""
    return tuple(_of_ranks(status, "heard", lambda said: said is False or None))


def _of_ranks(
    status: Mapping[str, Any], key: str, check: Callable[[object], _Value | None]
) -> Mapping[int, _Value]:
    """Return the valid values of a key by rank."""
    found = ((rank, check(said.get(key))) for rank, said in _ranks(status))
    return {rank: value for rank, value in found if value is not None}


def _ranks(status: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield each rank of a status with its entry."""
    ranks = status.get("ranks")
    for said in ranks if isinstance(ranks, list) else []:
        rank = files.whole(said.get("rank"), layout.MOST_RANKS) if isinstance(said, dict) else None
        if rank is not None:
            yield rank, said


def _never_begun(said: Mapping[str, Any], node: int, log: str | None) -> NodeReport:
    """Return the report of a node without a status; watch_start.py records the first failed start."""
    failure = Failure.read(said)
    if failure is None or failure.node != node:
        return NodeReport(node, "lost", log=log)
    return NodeReport(node, "failed", files.text(said.get("host"), 255), failure=failure)


def find_log(attempt: Attempt, node: int) -> str | None:
    """Return the most specific existing log of a node, relative to the run's folder; None without one."""
    own = (os.path.join(attempt.logs, name) for name in (layout.node_log(node), layout.JOB_LOG))
    found = next(filter(_has_content, (*own, attempt.scheduler_log)), None)
    return found and os.path.relpath(found, attempt.run_dir)


def _has_content(path: str) -> bool:
    try:
        return os.lstat(path).st_size > 0
    except OSError:
        return False

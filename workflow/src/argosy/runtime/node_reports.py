"""Reads status files of agents. Containers could have written them, so each value is checked."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Iterator, Mapping, TypeVar

from .contract import files, layout

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
    failure: Mapping[str, Any] | None = None
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
        return self.failure is not None and not str(self.failure.get("cause")).startswith(
            _ONLY_MISSED
        )


def read_reports(run_dir: str, attempt: str, nodes: int) -> list[NodeReport]:
    """Return the reports of all nodes."""
    # Listing a folder refreshes NFS's cache.
    with contextlib.suppress(OSError):
        os.listdir(os.path.join(run_dir, layout.RECORDS, attempt))
    attempt_dir = os.path.join(run_dir, layout.ATTEMPTS, attempt)
    not_started = files.try_object(os.path.join(attempt_dir, layout.NOT_STARTED))
    silent = files.try_object(os.path.join(attempt_dir, layout.LOST)).get("nodes")
    return [
        replace(
            read_report(run_dir, attempt, node, not_started, nodes),
            silent=isinstance(silent, list) and node in silent,
        )
        for node in range(nodes)
    ]


def read_report(
    run_dir: str, attempt: str, node: int, not_started: Mapping[str, Any], nodes: int
) -> NodeReport:
    """Return the report of one node; values of a wrong type count as missing."""
    log = find_log(run_dir, attempt, node)
    try:
        status = files.read_object(
            os.path.join(run_dir, layout.RECORDS, attempt, layout.node_status(node))
        )
    except (OSError, ValueError):
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
        failure=_checked_failure(status.get("failure"), nodes),
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


def _checked_failure(said: object, nodes: int) -> Mapping[str, Any] | None:
    """Return the failure in a status; None if it is invalid."""
    if not isinstance(said, dict):
        return None
    cause, at = files.text(said.get("cause")), files.number(said.get("at"))
    if cause is None or at is None:
        return None
    return {
        **failure_of(files.whole(said.get("node"), nodes), cause, at, files.text(said.get("kind"))),
        "rank": files.whole(said.get("rank"), layout.MOST_RANKS),
    }


def _never_begun(said: Mapping[str, Any], node: int, log: str | None) -> NodeReport:
    """Return the report of a node without a status; watch_start.py records the first failed start."""
    cause, at = files.text(said.get("cause")), files.number(said.get("at"))
    if said.get("node") != node or cause is None or at is None:
        return NodeReport(node, "lost", log=log)
    host = files.text(said.get("host"), 255)
    return NodeReport(node, "failed", host, failure=failure_of(node, cause, at))


def find_log(run_dir: str, attempt: str, node: int) -> str | None:
    """Return the most specific existing log of a node; None without one."""
    names = (
        f"{layout.LOGS}/{attempt}/{layout.node_log(node)}",
        f"{layout.LOGS}/{attempt}/{layout.JOB_LOG}",
        f"{layout.LOGS}/{layout.scheduler_log(layout.job_of(attempt))}",
    )
    return next((name for name in names if _has_content(os.path.join(run_dir, name))), None)


def _has_content(path: str) -> bool:
    try:
        return os.lstat(path).st_size > 0
    except OSError:
        return False


def failure_of(
    node: int | None, cause: str, at: float, kind: str | None = None
) -> Mapping[str, Any]:
    """Return a failure of a node or of the job, at a unix time."""
    known = {"kind": kind} if kind else {}
    return {"node": node, "rank": None, "cause": cause, "at": at, **known}

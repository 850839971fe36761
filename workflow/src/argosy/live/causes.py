"""Why a run came to nothing, in one line."""

from collections.abc import Mapping
from typing import Any

from argosy.files import rank_log
from argosy.jobs.log_tail import last_line
from argosy.jobs.schedulers.base import State
from argosy.jobs.verdicts import ENDED_FROM_OUTSIDE
from argosy.live.folders import RunFiles


def of_verdict(run: RunFiles, verdict: Mapping[str, Any]) -> str:
    """Who failed, where, and why; a program that ended by itself is quoted with its last line."""
    failure = verdict.get("failure")
    if not isinstance(failure, dict):
        return ""
    rank, node, cause = failure.get("rank"), failure.get("node"), str(failure.get("cause"))
    if rank is None and node is None:
        return cause
    who = f"node {node}" if rank is None else f"rank {rank}"
    if host := _host(verdict, node):
        who += f" on {host}"
    if rank is not None and cause.startswith("exit code"):
        said = last_line(rank_log(run.logs(str(verdict.get("incarnation"))), rank), run.site)
        cause += f": {said}" if said else ""
    return f"{who}: {cause}"


def of_silence(run: RunFiles, job_id: str, incarnation: str | None, state: State | None) -> str:
    """Why a job ended that left no verdict: what the queue knows, else the last words of its log."""
    if state in ENDED_FROM_OUTSIDE:
        return ENDED_FROM_OUTSIDE[state]
    logs = [run.slurm_log(job_id)]
    if incarnation:
        logs.insert(0, run.logs(incarnation) / "job.log")
    said = next((line for log in logs if (line := last_line(log, run.site))), "")
    return (
        f"ended without a verdict: {said}" if said else "ended without a verdict and without a log"
    )


def _host(verdict: Mapping[str, Any], node: object) -> str:
    hosts = verdict.get("hosts")
    if not isinstance(hosts, list) or not isinstance(node, int) or node >= len(hosts):
        return ""
    return str(hosts[node] or "")

"""Why an attempt came to nothing, in words: one way for the driver, the live table and the report."""

import re

from argosy.run_folder.error_line import error_line
from argosy.run_folder.folder import RunFolder
from argosy.run_folder.log_tail import last_line
from argosy.run_folder.models import Failure, Verdict

_OF_CONTAINER = re.compile(r"(?<![\w./-])/job/(?=(?:records|logs|attempts|output)\b)")
"""Where agents and ranks have the run's folder, and whoever reads has not."""


def who_failed(failure: Failure, host: str | None = None) -> str:
    """Return the rank or node that failed, `rank 1 (node 0, n1)`; "" where it is the whole job."""
    if failure.rank is None:
        return _node(failure, f" ({host})" if host else "")
    where = _node(failure, f", {host}" if host else "")
    return f"rank {failure.rank} ({where})" if where else f"rank {failure.rank}"


def _node(failure: Failure, host: str) -> str:
    return "" if failure.node is None else f"node {failure.node}{host}"


def describe_failure(failure: Failure, host: str | None = None) -> str:
    """Return who failed, where it is known, and why."""
    who = who_failed(failure, host)
    return f"{who}: {failure.cause}" if who else failure.cause


def describe_verdict(run: RunFolder, verdict: Verdict) -> str:
    """Return who failed, on which host, and why, "" without a failure.

    A program that ended by itself is quoted with its exception, or with its last line.
    """
    failure = verdict.failure
    if failure is None:
        return ""
    hosts = dict(enumerate(verdict.hosts))
    host = hosts.get(failure.node) if failure.node is not None else None
    text = _OF_CONTAINER.sub(lambda _: f"{run.path}/", describe_failure(failure, host))
    if failure.rank is not None and failure.cause.startswith("exit code"):
        said = error_line(run.rank_log(verdict.attempt, failure.rank), run.site)
        text += f": {said or 'it printed nothing'}"
    return text


def describe_doubts(verdict: Verdict) -> str:
    """Return what a completed run's numbers may be worth less for; "" without anything."""
    return "; ".join([*_apart(verdict.groups or 1), *verdict.remarks])


def _apart(groups: int) -> list[str]:
    if groups == 1:
        return []
    return [
        f"its ranks never met: they are {groups} groups, and no throughput is made of it (where they need "
        "not meet, write independent: true)"
    ]


def last_words(run: RunFolder, job_id: str | None, attempt: str | None) -> str:
    """Return the last line of an attempt's log, or of the scheduler's where it did not come so far."""
    logs = [run.scheduler_log(job_id)] if job_id else []
    if attempt:
        logs.insert(0, run.logs(attempt) / "job.log")
    return next((said for log in logs if (said := last_line(log, run.site))), "")

"""Say how a run ended, from what its agents wrote: ``python3 verdict.py RUN_DIR INCARNATION [REASON]``.

Runs on the host at the end of job.sbatch; where that did not come to its end the driver does it, and
gives the REASON that it knows from the queue (`scancel`: the job was cancelled by somebody). Writes
records/<incarnation>/verdict.json and, when the run completed, result.json. Exit code: 0 completed,
1 failed, 75 interrupted, 130 cancelled. A second call repeats the first one's verdict. What Slurm itself
said of the job's end, in its log file `logs/slurm-<job>.log`, is the cause of a job that was ended from
outside.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import json
import os
import re
import sys
import time
from dataclasses import dataclass
from typing import Any, Mapping, Sequence

SCHEMA_VERSION = 1
EXIT_CODES = {"completed": 0, "failed": 1, "interrupted": 75, "cancelled": 130}
# slurmstepd's last words, such as: *** JOB 7 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***
_ENDED_BY_SLURM = re.compile(
    r"\*\*\* (?:JOB|STEP) \S+ ON \S+ CANCELLED AT ([-0-9T:]{19})(?: DUE TO ([A-Z ]+)[^*]*?)? \*\*\*"
)
# How the agents speak of a node that they only miss; what the node itself says is better.
_ONLY_MISSED = ("its agent vanished", "its agent never started", "its agent runs on")


@dataclass(frozen=True)
class NodeReport:
    """What is known of one node; `state` is ``lost`` if its agent did not write its last word."""

    node: int
    state: str
    host: str | None = None
    started: float | None = None
    ended: float | None = None
    failure: Mapping[str, Any] | None = None
    log: str | None = None
    """What is there to be read of it, below the run's folder."""

    def concrete(self) -> bool:
        """Whether the node knows a failure that is more than another node's silence."""
        return self.failure is not None and not str(self.failure.get("cause")).startswith(
            _ONLY_MISSED
        )


def main(arguments: Sequence[str]) -> int:
    """Write the verdict and print it; 2 when the run's folder cannot be read."""
    if len(arguments) not in (2, 3):
        print("usage: verdict.py RUN_DIR INCARNATION [REASON]", file=sys.stderr)
        return 2
    run_dir, incarnation, reason = (*arguments, "")[:3]
    try:
        run = read_json(os.path.join(run_dir, "run.json"))
        run_id, nodes = str(run["run_id"]), int(run["nodes"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"argosy: {os.path.join(run_dir, 'run.json')}: {error!r}", file=sys.stderr)
        return 2
    records = os.path.join(run_dir, "records", incarnation)
    try:
        verdict = earlier_verdict(records, incarnation)
        if verdict is None:
            reports = read_reports(records, nodes)
            said = reason or read_slurm_log(run_dir, incarnation, begin_of(records))
            said = said or read_time_limit(records)
            verdict = decide(run_id, incarnation, reports, time.time(), said)
            verdict["spec"] = claim_of(records).get("spec")
        superseded = superseded_by(run_dir, incarnation) or planned_anew(run, verdict)
        if superseded and verdict["state"] in ("completed", "interrupted", "cancelled"):
            verdict = overruled(verdict, superseded)
        publish(verdict, run_dir, records)
    except OSError as error:
        print(f"argosy: run {run_id}: {error.filename}: {error.strerror}: the verdict is missing")
        return 1
    print(sentence(verdict))
    return EXIT_CODES[verdict["state"]]


def read_reports(records: str, nodes: int) -> list[NodeReport]:
    """What each node wrote."""
    # Listing a folder makes NFS forget what it believed about the files in it.
    with contextlib.suppress(OSError):
        os.listdir(records)
    return [read_report(records, node) for node in range(nodes)]


def read_report(records: str, node: int) -> NodeReport:
    """What one node wrote, if it is there and whole."""
    try:
        status = read_json(os.path.join(records, f"node-{node}.json"))
    except (OSError, ValueError):
        return _never_begun(records, node)
    state = status.get("state")
    if state not in EXIT_CODES:
        host, started = status.get("host"), status.get("started")
        return NodeReport(node, "lost", host, started, log=find_log(records, node))
    return NodeReport(
        node=node,
        state=state,
        host=status.get("host"),
        started=status.get("started"),
        ended=status.get("ended"),
        failure=status.get("failure"),
        log=find_log(records, node),
    )


def _never_begun(records: str, node: int) -> NodeReport:
    """What is known of a node without a status: the first that did not start is named by watch_start.py."""
    try:
        said = read_json(os.path.join(records, "not-started.json"))
        if said["node"] != node:
            return NodeReport(node, "lost", log=find_log(records, node))
        failure = _failure(node, str(said["cause"]), float(said["at"]))
    except (OSError, ValueError, KeyError, TypeError):
        return NodeReport(node, "lost", log=find_log(records, node))
    return NodeReport(node, "failed", said.get("host"), failure=failure)


def find_log(records: str, node: int) -> str | None:
    """The log that tells most of a node, of those that there are; None without any."""
    incarnation = os.path.basename(records)
    run_dir = os.path.dirname(os.path.dirname(records))
    names = (
        f"logs/{incarnation}/node-{node}.log",
        f"logs/{incarnation}/job.log",
        f"logs/slurm-{incarnation.rpartition('.')[0]}.log",
    )
    return next((name for name in names if _has_content(os.path.join(run_dir, name))), None)


def _has_content(path: str) -> bool:
    try:
        return os.path.getsize(path) > 0
    except OSError:
        return False


def read_slurm_log(run_dir: str, incarnation: str, since: float) -> str | None:
    """Why Slurm ended the job, in its own words; None where it did not, or there is no Slurm.

    The log is the job's, through all of its restarts: only what was said after `since` (unix) is
    of this incarnation.
    """
    job_id = incarnation.rpartition(".")[0]
    try:
        path = os.path.join(run_dir, "logs", f"slurm-{job_id}.log")
        with open(path, encoding="utf-8", errors="replace") as log:
            text = log.read()
    except OSError:
        return None
    ends = [
        (found.group(2) or "CANCELLED").lower()
        for found in _ENDED_BY_SLURM.finditer(text)
        if time.mktime(time.strptime(found.group(1), "%Y-%m-%dT%H:%M:%S")) >= int(since)
    ]
    # A bare CANCELLED may follow from another end; a reason stands.
    return max(ends, key=lambda reason: reason != "cancelled", default=None)


def read_time_limit(records: str) -> str | None:
    """Whether the scheduler `local` ended the job for its time limit, in Slurm's words."""
    return "time limit" if os.path.exists(os.path.join(records, "time-limit")) else None


def begin_of(records: str) -> float:
    """When the incarnation claimed the run (unix); 0 when that is not known."""
    try:
        return float(claim_of(records)["unix"])
    except (ValueError, KeyError, TypeError):
        return 0.0


def claim_of(records: str) -> dict[str, Any]:
    """How the incarnation claimed the run (claim.py); empty when that is not known."""
    try:
        return read_json(os.path.join(records, "claim.json"))
    except (OSError, ValueError):
        return {}


def planned_anew(run: Mapping[str, Any], verdict: Mapping[str, Any]) -> str | None:
    """Say that the run was planned for something else while this incarnation ran, if it was."""
    return None if run.get("spec") == verdict.get("spec") else "it was planned anew meanwhile"


def superseded_by(run_dir: str, incarnation: str) -> str | None:
    """Say which incarnation has claimed the run since, if there is one (claim.py)."""
    try:
        with open(os.path.join(run_dir, "incarnation"), encoding="utf-8") as file:
            owner = file.read().strip()
    except OSError:
        return None
    return f"the run was started again as {owner}" if owner != incarnation else None


def overruled(verdict: Mapping[str, Any], why: str) -> dict[str, Any]:
    """The verdict of an incarnation that counts for nothing: its run has gone to another, say."""
    cause = f"superseded: {why}"
    failure = _failure(None, cause, verdict["ended"])
    return {**verdict, "state": "failed", "failure": failure}


def decide(
    run_id: str,
    incarnation: str,
    reports: Sequence[NodeReport],
    now: float,
    said_by_slurm: str | None = None,
) -> dict[str, Any]:
    """The verdict over all nodes; `now` (unix) stands in for times that no node wrote down."""
    failure = find_failure(reports, now)
    cancelled = [report.ended or now for report in reports if report.state == "cancelled"]
    if cancelled and not _came_first(reports, min(cancelled)):
        state, failure = "cancelled", None
    elif failure is None and any(report.state == "interrupted" for report in reports):
        state = "interrupted"
    else:
        state = "failed" if failure else "completed"
    if said_by_slurm and state != "completed":
        by = "Argosy" if incarnation.startswith("local-") else "Slurm"
        ended = _failure(None, f"ended by {by}: {said_by_slurm}", now)
        state, failure = _ended_from_outside(state, failure, reports, said_by_slurm, ended)
    begin = min((report.started for report in reports if report.started), default=now)
    end = max((report.ended or now for report in reports), default=now)
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": run_id,
        "incarnation": incarnation,
        "state": state,
        "started": begin,
        "ended": end,
        "seconds": max(0.0, end - begin),
        "hosts": [report.host for report in reports],
        "failure": failure,
    }


def find_failure(reports: Sequence[NodeReport], now: float) -> Mapping[str, Any] | None:
    """The root cause: what a node knows before what is missing, what is missing before silence."""
    for report in reports:
        if report.state == "failed" and report.concrete():
            return report.failure
    for report in reports:
        if report.state == "lost":
            # Without a status nobody knows which; with one, the agent had begun.
            what = "was killed" if report.started else "was killed or never started"
            cause = f"the agent of node {report.node} {what}"
            return _failure(report.node, f"{cause}; {_see(report)}", now)
    for report in reports:
        if report.state == "failed":
            cause = f"it gave no reason; {_see(report)}"
            return report.failure or _failure(report.node, cause, report.ended or now)
    return None


def _ended_from_outside(
    state: str,
    failure: Mapping[str, Any] | None,
    reports: Sequence[NodeReport],
    said: str,
    ended: Mapping[str, Any],
) -> tuple[str, Mapping[str, Any] | None]:
    """State and failure of a job that its scheduler ended: its word is the cause, not what followed."""
    if said == "scancel":
        # The queue's own word: silence then means nothing, but a failure that came first is one.
        known = any(report.concrete() for report in reports)
        return (state, failure) if known else ("cancelled", None)
    if said == "cancelled":
        return ("cancelled", None) if state == "cancelled" else (state, failure)
    if state == "interrupted":
        return state, failure
    return "failed", ended


def _see(report: NodeReport) -> str:
    return f"see {report.log}" if report.log else "it left no log"


def _failure(node: int | None, cause: str, at: float) -> Mapping[str, Any]:
    return {"node": node, "rank": None, "cause": cause, "at": at}


def _came_first(reports: Sequence[NodeReport], cancelled: float) -> bool:
    return any(
        report.state == "failed" and report.concrete() and report.failure["at"] < cancelled
        for report in reports
        if report.failure
    )


def earlier_verdict(records: str, incarnation: str) -> dict[str, Any] | None:
    """The verdict of an earlier call."""
    try:
        verdict = read_json(os.path.join(records, "verdict.json"))
    except (OSError, ValueError):
        return None
    known = verdict.get("incarnation") == incarnation and verdict.get("state") in EXIT_CODES
    return verdict if known else None


def publish(verdict: Mapping[str, Any], run_dir: str, records: str) -> None:
    """Write the verdict, and last the result, if there is one. Raises OSError."""
    os.makedirs(records, mode=0o700, exist_ok=True)
    # Agents that were killed leave behind the space that they kept back for this moment.
    for reserve in glob.glob(os.path.join(glob.escape(records), ".reserve-*")):
        with contextlib.suppress(OSError):
            os.unlink(reserve)
    write_json(os.path.join(records, "verdict.json"), verdict)
    if verdict["state"] == "completed":
        write_json(os.path.join(run_dir, "result.json"), verdict)


def sentence(verdict: Mapping[str, Any]) -> str:
    """The verdict in one line."""
    text = f"argosy: run {verdict['run_id']} {verdict['state']}"
    failure = verdict["failure"]
    if failure is None:
        return f"{text} after {verdict['seconds']:.1f} s"
    node, rank = failure["node"], failure["rank"]
    if node is None:
        return f"{text}: {failure['cause']}"
    who = f"node {node}" if rank is None else f"rank {rank} (node {node})"
    return f"{text}: {who}: {failure['cause']}"


def read_json(path: str) -> dict[str, Any]:
    """An object of the schema version that we know. Raises OSError or ValueError."""
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    if not isinstance(content, dict) or content.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(f"not an object of schema_version {SCHEMA_VERSION}")
    return content


def write_json(path: str, value: Mapping[str, Any]) -> None:
    """Replace a JSON file at once. Raises OSError."""
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(value, file, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise OSError(error.errno, os.strerror(error.errno or errno.EIO), path) from None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

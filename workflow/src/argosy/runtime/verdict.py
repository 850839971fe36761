"""Decide how a run ended, from its agents' files: ``python3 verdict.py RUN_DIR ATTEMPT [REASON]``.

Runs on the host at the end of job.sbatch. If the script did not get there, the driver runs it, with the
REASON from the queue (`cancelled job`: by a user). Writes attempts/<attempt>/verdict.json and, if the
run completed, result.json. Exit codes: 0 completed, 1 failed, 75 interrupted, 130 cancelled, 76 failed
and to be restarted (restart.py) as in attempts/<attempt>/restart. A second call repeats the first
verdict. For a job that was ended from outside, the cause is the scheduler's message in its log,
`logs/scheduler-<job>.log`.
"""

from __future__ import annotations

import contextlib
import glob
import math
import os
import sys
import time
from typing import Any, Iterator, Mapping, Sequence

if not __package__:  # started by its path
    import started_by_path

    __package__ = started_by_path.PACKAGE

from . import log_words, meetings, printing, working_folder
from .agent.coordination.failure import VANISHED, Failure
from .contract import files, layout
from .contract.attempt import Attempt
from .contract.run import RunSpec, run_of
from .node_reports import STATES, NodeReport, read_reports
from .restart import Restart, restart_of

_MOST_BYTES = 1 << 62
RESTART = 76
EXIT_CODES = {"completed": 0, "failed": 1, "interrupted": 75, "cancelled": 130}
_ADVICE = {"time limit": "raise resources.time, or let the program save checkpoints"}
NODE_FAILURE = "node failure"
# Seconds in which an end by the scheduler shows in the agents' files.
_AT_ONCE = 2.0
_CRASHED = "it crashed or rebooted"
_UNSEEN = (
    "it is unknown whether {} met: their connections were too short to be seen, or their processes "
    "could not be observed"
)


def main(arguments: Sequence[str]) -> int:
    """Write and print the verdict; return 2 if the run's folder cannot be read."""
    if len(arguments) not in (2, 3):
        printing.complain("usage: verdict.py RUN_DIR ATTEMPT [REASON]")
        return 2
    run_dir, name, reason = (*arguments, "")[:3]
    attempt = Attempt(run_dir, name)
    try:
        run = run_of(files.read_object(os.path.join(run_dir, layout.RUN)))
        run_then = attempt.run()
    except (OSError, ValueError) as error:
        printing.complain(f"argosy: {os.path.join(run_dir, layout.RUN)}: {error!r}")
        return 2
    try:
        verdict = earlier_verdict(attempt)
        is_new = verdict is None
        reports = read_reports(attempt, run_then.nodes)
        verdict = verdict or verdict_of(attempt, run, run_then, reports, reason)
        superseded = superseded_by(attempt) or planned_anew(run, verdict)
        if superseded and verdict["state"] in ("completed", "interrupted", "cancelled"):
            verdict = overruled(verdict, superseded)
        restart: Restart | str = ""
        # Only the attempt's own script can restart.
        is_its_script = os.environ.get("ARGOSY_ATTEMPT") == name
        if is_new and is_its_script and verdict["state"] == "failed" and not superseded:
            restart = restart_of(attempt, run, Failure.read(verdict["failure"]), reports)
        if isinstance(restart, Restart):
            verdict["restart"] = restart.record()
            restart.write(attempt.file(layout.RESTART))
        publish(verdict, attempt)
        if not superseded_by(attempt):
            hide_project(run_dir, run)
    except OSError as error:
        printing.say(
            f"argosy: run {files.text(run.run_id)}: {error.filename}: {error.strerror}: "
            "the verdict is missing"
        )
        return 1
    printing.say(sentence(verdict, run))
    if restart:
        printing.say(f"argosy: {restart}")
    return RESTART if isinstance(restart, Restart) else EXIT_CODES[verdict["state"]]


def verdict_of(
    attempt: Attempt, run: RunSpec, run_then: RunSpec, reports: Sequence[NodeReport], reason: str
) -> dict[str, Any]:
    """Return the verdict of an attempt from its nodes' reports and the scheduler's messages.

    Args:
        attempt: the attempt.
        run: its run as it is planned now.
        run_then: its run as the attempt claimed it.
        reports: the reports of its nodes.
        reason: the reason from the queue; empty without one.
    """
    words, claim = log_words.load(), attempt.read(layout.CLAIM)
    # The scheduler's log covers all restarts of the job.
    begin = files.whole(claim.get("log_begin"), _MOST_BYTES) or 0
    log = files.read_log(attempt.scheduler_log, begin)
    has_limit = os.path.lexists(attempt.file(layout.TIME_LIMIT))
    said = reason or words.why_ended(log) or ("time limit" if has_limit else None)
    if said == NODE_FAILURE and run.least_nodes and not reason:
        # The job continues without the node (--no-kill), and the agents report which it was.
        said = None
    # The node's time zone may differ from the reader's.
    ended, offset = words.ended_at(log), files.number(claim.get("utc_offset_s"))
    if said != NODE_FAILURE and ended is not None and offset is not None:
        # A failure that agents reported earlier is no consequence of the scheduler's action.
        said = None if known_since(reports) + _AT_ONCE < ended - offset else said
    # A launcher that Argosy ended (watch_end.py) leaves the same messages.
    is_ours = any(report.silent for report in reports)
    verdict = decide(
        files.text(run.run_id) or "",
        attempt.name,
        reports,
        time.time(),
        said,
        scheduler=words.NAME,
        killed=""
        if is_ours
        else words.why_killed(log + files.read_log(os.path.join(attempt.logs, layout.JOB_LOG))),
    )
    verdict["spec"] = claim.get("spec")
    if "programs" in claim:
        verdict["programs"] = claim["programs"]
    if verdict["state"] == "completed":
        groups = meetings.groups_of_ranks(run_then, attempt.records)
        remarks = [
            *remarks_on(reports),
            *([_UNSEEN.format(run.meeting_names[0])] if groups == 0 else []),
        ]
        remarks += unmatched(run, reports)
        verdict.update({"groups": groups} if groups else {})
        verdict.update({"remarks": remarks} if remarks else {})
    return verdict


def hide_project(run_dir: str, run: RunSpec) -> None:
    """Remove the links to the project from the program's working directory."""
    # results/<site>/<experiment>/<run>
    project = run_dir
    for _ in range(4):
        project = os.path.dirname(project)
    shown = run.shown_project(project)
    with contextlib.suppress(OSError):
        if shown:
            working_folder.hide(os.path.join(run_dir, layout.OUTPUT), shown, run.outputs or ())


def known_since(reports: Sequence[NodeReport]) -> float:
    """Return the unix time of the first failure; infinity without one."""
    return min((report.failure.at for report in reports if report.failure), default=math.inf)


def planned_anew(run: RunSpec, verdict: Mapping[str, Any]) -> str | None:
    """Return a cause if the run was replanned while this attempt ran; None otherwise."""
    return None if run.spec == verdict.get("spec") else "it was replanned meanwhile"


def superseded_by(attempt: Attempt) -> str | None:
    """Return a cause if another attempt has claimed the run since; None otherwise."""
    try:
        content = files.read_bytes(os.path.join(attempt.run_dir, layout.OWNER), 4096)
    except OSError:
        return None
    owner = files.text(content.decode("utf-8", "replace").strip()) or ""
    return f"the run was started again as {owner}" if owner != attempt.name else None


def overruled(verdict: Mapping[str, Any], why: str) -> dict[str, Any]:
    """Return the verdict of an attempt that does not count, such as of a run claimed by another one."""
    failure = Failure(None, None, f"superseded: {why}", verdict["ended"], "")
    return {**verdict, "state": "failed", "failure": failure.record()}


def decide(
    run_id: str,
    attempt: str,
    reports: Sequence[NodeReport],
    now: float,
    said: str | None,
    *,
    scheduler: str,
    killed: str,
) -> dict[str, Any]:
    """Return the verdict over all nodes; `now` (unix) replaces missing times.

    Args:
        said: the reason why the `scheduler` ended the job, if it did.
        killed: the reason in the logs why agents were killed, if there is one.
    """
    failure = _root_cause(reports, now, killed)
    cancelled = [report.ended or now for report in reports if report.state == "cancelled"]
    if cancelled and not _came_first(reports, min(cancelled)):
        state, failure = "cancelled", None
    elif failure is None and any(report.state == "interrupted" for report in reports):
        state = "interrupted"
    else:
        state = "failed" if failure else "completed"
    if said and state != "completed":
        silence = next((each.silence for each in reports if each.silence), None)
        advice = (silence or _ADVICE[said]) if said in _ADVICE else None
        # A scheduler requeues a job that a node failed to launch.
        requeued = killed if said == "job requeue" else ""
        cause = "; ".join(filter(None, (said, requeued, _in_vain(reports, said), advice)))
        ended = Failure(None, None, f"ended by {scheduler}: {cause}", now, "")
        state, failure = _ended_from_outside(state, failure, reports, said, ended)
    # The clocks of nodes may differ, so the first node's counts: it starts the job and ends it.
    timed = [report for report in reports if report.node == 0 and report.started] or reports
    begin = min((report.started for report in timed if report.started), default=now)
    end = max((report.ended or now for report in timed), default=now)
    return {
        "schema_version": layout.SCHEMA_VERSION,
        "run_id": run_id,
        "attempt": attempt,
        "state": state,
        "started": begin,
        "ended": end,
        "seconds": max(0.0, end - begin),
        "hosts": [report.host for report in reports],
        "failure": failure and failure.record(),
    }


def _in_vain(reports: Sequence[NodeReport], said: str) -> str:
    """Return a remark if the warning before a time limit had no handler; empty otherwise."""
    unheard = sorted(rank for report in reports for rank in report.unheard)
    if said != "time limit" or not unheard:
        return ""
    ranks = _first([f"rank {rank}" for rank in unheard])
    return f"no process of {ranks} handles the warning: the program has to handle SIGUSR1"


def _root_cause(reports: Sequence[NodeReport], now: float, killed: str) -> Failure | None:
    """Return a node's own failure, else a lost node, else the first report of silence."""
    for report in reports:
        if report.state == "failed" and report.concrete():
            return report.failure
    for report in reports:
        if report.state == "lost":
            # With a status, the agent had started; without one, that is unknown.
            what = "was killed" if report.started else "was killed or never started"
            cause = f"the agent of node {report.node} {what}{killed and f': {killed}'}"
            if report.silent:
                cause = f"its agent vanished and the node stopped responding: {_CRASHED}"
            kind = VANISHED if report.started else ""
            return Failure(report.node, None, f"{cause}; {_see(report)}", now, kind)
    if reports[0].state == "completed":
        # The head saw all ranks of all nodes end well; a node missed its answer.
        return None
    failures = [
        report.failure
        or Failure(report.node, None, f"it gave no reason; {_see(report)}", report.ended or now, "")
        for report in reports
        if report.state == "failed"
    ]
    # A node that was stopped for a while misses the others, which had missed it before.
    return min(failures, key=lambda failure: failure.at, default=None)


def _ended_from_outside(
    state: str,
    failure: Failure | None,
    reports: Sequence[NodeReport],
    said: str,
    ended: Failure,
) -> tuple[str, Failure | None]:
    """Return state and failure of a job that its scheduler ended: its reason is the cause."""
    if said == "cancelled job":
        # The queue reports a cancellation: then silence means nothing, but an earlier failure counts.
        known = any(report.concrete() for report in reports)
        return (state, failure) if known else ("cancelled", None)
    if said == "cancelled":
        return ("cancelled", None) if state == "cancelled" else (state, failure)
    if state == "interrupted":
        return state, failure
    return "failed", ended


def _see(report: NodeReport) -> str:
    return f"see {report.log}" if report.log else "it left no log"


def _came_first(reports: Sequence[NodeReport], cancelled: float) -> bool:
    return any(
        report.state == "failed" and report.concrete() and report.failure.at < cancelled
        for report in reports
        if report.failure
    )


def earlier_verdict(attempt: Attempt) -> dict[str, Any] | None:
    """Return the verdict of an earlier call; None without a valid one."""
    verdict = attempt.read(layout.VERDICT)
    failure = verdict.get("failure")
    known = (
        verdict.get("attempt") == attempt.name
        and isinstance(verdict.get("run_id"), str)
        and str(verdict.get("state")) in STATES
        and None not in (files.number(verdict.get("seconds")), files.number(verdict.get("ended")))
        and (failure is None or Failure.read(failure) is not None)
    )
    return verdict if known else None


def publish(verdict: Mapping[str, Any], attempt: Attempt) -> None:
    """Write the verdict, and last the result of a completed run. Raises OSError."""
    # Remove the disk space that killed agents had reserved.
    for reserve in glob.glob(os.path.join(glob.escape(attempt.records), ".reserve-*")):
        with contextlib.suppress(OSError):
            os.unlink(reserve)
    attempt.write(layout.VERDICT, verdict)
    if verdict["state"] == "completed":
        files.write_json(os.path.join(attempt.run_dir, layout.RESULT), verdict)


def sentence(verdict: Mapping[str, Any], run: RunSpec) -> str:
    text = f"argosy: run {verdict['run_id']} {verdict['state']}"
    failure = Failure.read(verdict["failure"])
    if failure is None:
        groups = verdict.get("groups") or 1
        apart = (
            f"; {run.meeting_names[0]} never met: they are {groups} groups" if groups > 1 else ""
        )
        more = "".join(f"; {remark}" for remark in verdict.get("remarks", []))
        return f"{text} after {verdict['seconds']:.1f} s{apart}{more}"
    return f"{text}: {failure}"


def remarks_on(reports: Sequence[NodeReport]) -> list[str]:
    """Return doubts about a completed run from its nodes' reports."""
    remarks = []
    killed = [f"node {report.node}" for report in reports if report.has_killed]
    if killed:
        remarks.append(
            f"the kernel killed a process of this job for lack of memory on {_first(killed)}, though all "
            "ranks ended well: check its work or raise resources.memory_per_rank"
        )
    behind = [name for report in reports for name in report.left_behind]
    if behind:
        remarks.append(
            f"processes still ran when their ranks had ended, and were ended: {_first(behind)}: let the "
            "program wait for what it starts"
        )
    raised = {f"rank {rank}": text for report in reports for rank, text in report.raised.items()}
    if raised:
        remarks.append(
            f"{_first([*raised])} ended with 0 right after an exception: {next(iter(raised.values()))}: "
            "let the command end with the program's exit code (in a shell: set -o pipefail)"
        )
    left = {f"rank {rank}": s for report in reports for rank, s in report.unproven.items()}
    if left:
        remarks.append(
            f"{_first([*left])} ended with 0, {min(left.values()):.0f} s after a warning that it "
            "handles by itself: it is unknown whether it was done or stopped early"
        )
    return remarks


def unmatched(run: RunSpec, reports: Sequence[NodeReport]) -> Iterator[str]:
    """Yield remarks on metrics without a value."""
    for name in run.metrics or ():
        found = [report.metrics[name] for report in reports if name in report.metrics]
        lines, matches, values = (
            sum(each[key] for each in found) for key in ("lines", "matches", "values")
        )
        if found and not matches:
            yield f"the pattern of metrics.{name} matched none of the {lines:,} lines"
        elif found and not values:
            yield f"the pattern of metrics.{name} found no readable number in {matches:,} matches"


def _first(names: Sequence[str]) -> str:
    return names[0] + (f" and {len(names) - 1} more" if names[1:] else "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

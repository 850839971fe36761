"""Rows of the small tables, from a `MeasuredRun`."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from argosy.results.hidden_values import without_secrets
from argosy.results.measured_run import NOT_FAILED, Attempt, MeasuredRun
from argosy.run_folder.failures import describe_failure
from argosy.run_folder.models import Failure
from argosy.runtime.contract.throughput import throughput_of

Row = dict[str, Any]

PRINTED_LOSS = "loss in the output"
"""Name of the metric for a loss printed as NaN or infinite; its text is the printed line."""


@dataclass(frozen=True)
class Completeness:
    """Gaps and surplus in the records of a completed run."""

    unreadable_records: int = 0
    repeated_steps: int = 0
    """Steps that a job repeated after continuing from a checkpoint."""
    duplicate_steps: int = 0
    """Steps recorded twice by one rank of one job; the first record counts."""
    missing_steps: int = 0
    """Steps that other ranks of the run recorded."""
    missing_ranks: tuple[int, ...] = ()
    """Ranks without any step."""
    clock_spread_s: float | None = None
    """Spread of the ranks' end times of one step; more than a step's time shows unsynchronised clocks."""


def run_row(run: MeasuredRun, found: Completeness) -> Row:
    current, ran, restarts = run.current, run.ran, run.restarts
    printed = throughput_of(ran.throughput)
    return _key(run) | {
        "site": run.asked.site,
        "nodes": run.asked.nodes,
        "ranks_per_node": run.asked.ranks_per_node,
        "ranks": run.asked.ranks,
        "processes": run.asked.processes,
        "repeat": run.asked.repeat,
        "scaling": ran.scaling,
        "variant_of": run.asked.variant and run.asked.variant.of,
        "variant_data": run.asked.variant and run.asked.variant.data,
        "timeline": ran.timeline,
        "horovod_cycle_s": ran.horovod_cycle_s,
        "horovod_fusion_bytes": ran.horovod_fusion_bytes,
        "command": run.experiment.command or [*ran.command],
        "launcher": ran.launcher,
        "is_native": ran.is_native,
        "hardware": ran.hardware,
        "queue": ran.queue,
        "throughput_pattern": _as_text(ran.throughput),
        "printed_unit": printed.unit if printed else None,
        "printing_ranks": len(printed.ranks(run.asked.processes)) if printed else None,
        "environment": json.dumps(without_secrets(_variables(run)), sort_keys=True),
        "own_variables": sorted(run.experiment.environment),
        "resources": json.dumps(run.experiment.resources, sort_keys=True),
        "state": run.state,
        "attempt": current.name if current else None,
        "groups": run.result.groups if run.result else None,
        "independent": ran.independent,
        "remarks": run.result.remarks if run.result else [],
        "pieces": len(run.pieces),
        "continued_at": [piece.until for piece in run.pieces if piece.until is not None],
        "restarts": restarts.count if restarts else 0,
        "restarts_lost_s": restarts.lost_s if restarts else None,
        "part_nodes": restarts.nodes if restarts else [],
        "waited_s": run.waited_s,
        "started_unix_s": current.started if current else None,
        "ended_unix_s": current.ended if current else None,
        "seconds": current.seconds if current else None,
        "hosts": _hosts(current) if current else [],
        "image_name": ran.image and ran.image.name,
        "image_digest": ran.image and ran.image.digest,
        "programs": json.dumps(run.programs, sort_keys=True),
        "failure": describe_failure(current.failure) if current and current.failure else None,
        **vars(found),
        "missing_ranks": [*found.missing_ranks],
        "log_files": [_in_results(run, current, log) for log in run.logs(current)]
        if current
        else [],
        "provenance": run.provenance,
        "files_fingerprint": run.listing.fingerprint,
    }


def _as_text(throughput: str | Mapping[str, Any] | None) -> str | None:
    """Return the key `throughput` as text: a pattern, or the JSON of a mapping."""
    if throughput is None or isinstance(throughput, str):
        return throughput
    return json.dumps(throughput, sort_keys=True, ensure_ascii=False)


def node_rows(run: MeasuredRun) -> Iterator[Row]:
    for node in run.current.nodes if run.current else ():
        yield _key(run) | {"node": node.node, "host": node.host} | node.machine.model_dump()


def printed_loss_rows(run: MeasuredRun) -> Iterator[Row]:
    """Yield a row of `metrics` for each rank of a completed run that printed a NaN or infinite loss."""
    if run.result is None or run.current is None:
        return
    for node in run.current.nodes:
        for rank in node.ranks:
            if rank.not_finite:
                yield _key(run) | {
                    "rank": rank.rank,
                    "name": PRINTED_LOSS,
                    "value_number": None,
                    "value_text": rank.not_finite.text,
                    "at_s": rank.not_finite.at - run.result.started,
                }


def failure_rows(run: MeasuredRun) -> Iterator[Row]:
    """Yield a row of `failures` for each failed attempt."""
    for attempt, failure in run.failures():
        yield _key(run) | {
            "attempt": attempt.name,
            "state": attempt.state if attempt.state in NOT_FAILED else "failed",
            "node": failure.node,
            "rank": failure.rank,
            "cause": failure.cause,
            "lost_s": attempt.seconds,
            "log_file": _telling_log(run, attempt, failure),
        }


def _telling_log(run: MeasuredRun, attempt: Attempt, failure: Failure) -> str | None:
    """Return the log to open first: the failed rank's, else the failed node's, else the job's."""
    logs = run.logs(attempt)
    names = (f"ranks/rank-{failure.rank}.log", f"node-{failure.node}.log", "job.log")
    return next((_in_results(run, attempt, name) for name in names if name in logs), None)


def _variables(run: MeasuredRun) -> dict[str, str]:
    """Return the ranks' variables as format strings; the experiment's own keep their placeholders."""
    own = run.experiment.environment.items()
    doubled = {name: text.replace("{", "{{").replace("}", "}}") for name, text in own}
    return {**run.ran.rank_environment, **doubled}


def _hosts(attempt: Attempt) -> list[str | None]:
    if attempt.verdict:
        return attempt.verdict.hosts
    return [node.host for node in attempt.nodes]


def _key(run: MeasuredRun) -> Row:
    return {"experiment": run.asked.experiment, "run_id": run.asked.run_id}


def _in_results(run: MeasuredRun, attempt: Attempt, log: str) -> str:
    """Return a log's path relative to the site's folder."""
    return f"{run.asked.experiment}/{run.asked.run_id}/logs/{attempt.name}/{log}"

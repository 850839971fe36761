"""The room's one door: run folders in, tables out."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb

from argosy.results.errors import ResultsError
from argosy.results.models import Failure
from argosy.results.records import load_records, record_files
from argosy.results.run_folder import NOT_FAILED, Incarnation, RunFolder, read_run
from argosy.results.tables import create_tables, fetch, insert_rows, write_tables

Row = dict[str, Any]


def collect(results_dir: Path, tables_dir: Path, runs: Sequence[Path] | None = None) -> None:
    """Write the tables of the runs below `results_dir` (results/<site>) to `tables_dir`.

    `runs` names the run folders to read; None means every folder of a run below `results_dir`.
    Raises ResultsError, with the old tables untouched, for a file that breaks the contract. Lines
    of JSON Lines that cannot be read are counted in runs.unreadable_records.
    """
    results_dir = results_dir.absolute()
    if not results_dir.is_dir():
        raise ResultsError(f"{results_dir}: no such folder; run an experiment first")
    folders = [read_run(path.absolute()) for path in _run_folders(results_dir, runs)]
    tables_dir.mkdir(parents=True, exist_ok=True)
    # Millions of steps do not fit in memory: DuckDB works in a file that goes away afterwards.
    with (
        tempfile.TemporaryDirectory(prefix=".collect-", dir=tables_dir) as work,
        duckdb.connect(str(Path(work) / "records.duckdb")) as database,
    ):
        create_tables(database)
        load_records(database, [file for run in folders for file in record_files(run)])
        insert_rows(database, "nodes", [row for run in folders for row in _node_rows(run)])
        insert_rows(
            database,
            "failures",
            [row for run in folders for row in _failure_rows(run, results_dir)],
        )
        insert_rows(
            database,
            "runs",
            [_run_row(run, results_dir) | _completeness(run, database) for run in folders],
        )
        write_tables(database, tables_dir)


def _run_folders(results_dir: Path, runs: Sequence[Path] | None) -> list[Path]:
    if runs is not None:
        return sorted(set(runs))
    return sorted(path.parent for path in results_dir.glob("*/*/run.json"))


def _run_row(run: RunFolder, results_dir: Path) -> Row:
    current = run.current
    return _key(run) | {
        "site": run.asked.site,
        "nodes": run.asked.nodes,
        "ranks_per_node": run.asked.ranks_per_node,
        "ranks": run.ranks,
        "repeat": run.asked.repeat,
        "scaling": run.asked.scaling,
        "state": run.state,
        "incarnation": current.name if current else None,
        "pieces": len(run.pieces),
        "started_unix_s": current.started if current else None,
        "ended_unix_s": current.ended if current else None,
        "seconds": current.seconds if current else None,
        "hosts": _hosts(current) if current else [],
        "image_name": run.asked.image and run.asked.image.name,
        "image_digest": run.asked.image and run.asked.image.digest,
        "failure": _sentence(current.failure) if current and current.failure else None,
        "log_files": [_relative(log, results_dir) for log in run.logs(current)] if current else [],
        "provenance": run.provenance,
    }


def _node_rows(run: RunFolder) -> list[Row]:
    return [
        _key(run) | {"node": node.node, "host": node.host} | node.machine.model_dump()
        for node in (run.current.nodes if run.current else ())
    ]


def _failure_rows(run: RunFolder, results_dir: Path) -> list[Row]:
    return [
        _key(run)
        | {
            "incarnation": incarnation.name,
            "state": incarnation.state if incarnation.state in NOT_FAILED else "failed",
            "node": failure.node,
            "rank": failure.rank,
            "cause": failure.cause,
            "lost_s": incarnation.seconds,
            "log_file": _telling_log(run, incarnation, failure, results_dir),
        }
        for incarnation, failure in run.failures()
    ]


def _telling_log(
    run: RunFolder, incarnation: Incarnation, failure: Failure, results_dir: Path
) -> str | None:
    """The log to open first: the failed rank's, else the failed node's, else the job's."""
    logs = {log.name: log for log in run.logs(incarnation)}
    names = (f"rank-{failure.rank}.log", f"node-{failure.node}.log", "job.log")
    return next((_relative(logs[name], results_dir) for name in names if name in logs), None)


def _hosts(incarnation: Incarnation) -> list[str]:
    if incarnation.verdict:
        return incarnation.verdict.hosts
    return [node.host for node in incarnation.nodes]


def _sentence(failure: Failure) -> str:
    where = [
        f"{kind} {number}"
        for kind, number in (("node", failure.node), ("rank", failure.rank))
        if number is not None
    ]
    return f"{', '.join(where)}: {failure.cause}" if where else failure.cause


def _key(run: RunFolder) -> Row:
    return {"experiment": run.asked.experiment, "run_id": run.asked.run_id}


def _relative(path: Path, results_dir: Path) -> str:
    return Path(os.path.relpath(path, results_dir)).as_posix()


def _completeness(run: RunFolder, database: duckdb.DuckDBPyConnection) -> Row:
    """What the records of a completed run lack: lines that cannot be read, ranks with no step."""
    key = _key(run)
    where = "WHERE experiment = $experiment AND run_id = $run_id"
    counts = {
        row["kind"]: row["n"]
        for row in fetch(
            database, f"SELECT kind, count(*) AS n FROM record {where} GROUP BY kind", key
        )
    }
    ranks = fetch(database, f"SELECT DISTINCT rank FROM steps {where}", key)
    recorded = {row["rank"] for row in ranks}
    missing = [rank for rank in range(run.ranks) if rank not in recorded]
    return {
        "unreadable_records": counts.get("unreadable", 0),
        "repeated_steps": counts.get("repeated", 0),
        "missing_ranks": missing if run.state == "completed" else [],
    }

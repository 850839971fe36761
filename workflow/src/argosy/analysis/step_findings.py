"""What is found in the steps of each run, kept beside the tables.

To look at all steps of a large study takes longer than the rest of its report, and what is found of a run
stays the same as long as its files do.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import duckdb

from argosy.analysis.slow_ranks import slow_ranks
from argosy.analysis.statistics import Estimate
from argosy.analysis.steady import RANK_COLUMNS, warm_ups
from argosy.analysis.stragglers import Straggler
from argosy.analysis.warmup import WarmUp
from argosy.files import replacing
from argosy.results.tables import TABLES_VERSION, Run, fetch, fill, literal, parquet

FINDINGS_VERSION = 4
"""Of the rules by which steps are looked at: what others found is looked for again."""

FILE_NAME = "step_findings.parquet"

Row = Mapping[str, Any]

_MADE_FROM = f"files_fingerprint || ' tables {TABLES_VERSION} findings {FINDINGS_VERSION}'"
_TAKE = f"""
CREATE OR REPLACE TEMP TABLE kept AS
SELECT found.* FROM read_parquet($path, hive_partitioning = false) AS found
JOIN runs USING (experiment, run_id)
WHERE made_from = {_MADE_FROM}
"""
_KEPT = "SELECT * EXCLUDE steady_ranks FROM kept"
_RUNS = "SELECT experiment, run_id FROM runs ORDER BY experiment, run_id"
_ALL_RANKS = """
CREATE OR REPLACE TEMP TABLE steady_rank AS
FROM steady_rank UNION ALL BY NAME
SELECT experiment, run_id, unnest(steady_ranks, recursive := true) FROM kept
ORDER BY experiment, run_id, rank
"""

_WARM_UPS = """
CREATE OR REPLACE TEMP TABLE warm_up (
    experiment VARCHAR, run_id VARCHAR, warm_up_steps BIGINT, is_stationary BOOLEAN, reason VARCHAR,
    excess DOUBLE, left_out BOOLEAN
)
"""
_STRAGGLERS = """
CREATE OR REPLACE TEMP TABLE straggler (
    experiment VARCHAR, run_id VARCHAR, place INTEGER, rank INTEGER, node INTEGER, n INTEGER,
    mean DOUBLE, low DOUBLE, high DOUBLE, share DOUBLE
)
"""
_FINDINGS = f"""
WITH of_ranks AS (
    SELECT experiment, run_id,
        list(struct_pack({", ".join(RANK_COLUMNS)}) ORDER BY rank) AS steady_ranks
    FROM steady_rank GROUP BY ALL
), of_stragglers AS (
    SELECT experiment, run_id,
        list(struct_pack(rank, node, n, mean, low, high, share) ORDER BY place) AS stragglers
    FROM straggler GROUP BY ALL
)
SELECT experiment, run_id, {_MADE_FROM} AS made_from, warm_up_steps, is_stationary, reason, excess,
    left_out, steady_ranks, stragglers
FROM runs LEFT JOIN warm_up USING (experiment, run_id)
LEFT JOIN of_ranks USING (experiment, run_id) LEFT JOIN of_stragglers USING (experiment, run_id)
ORDER BY experiment, run_id
"""


@dataclass(frozen=True)
class StepFindings:
    """By experiment and run_id: warm-ups of runs that recorded steps, stragglers of those that have any."""

    warm_ups: Mapping[Run, WarmUp]
    stragglers: Mapping[Run, Sequence[Straggler]]


def step_findings(tables: duckdb.DuckDBPyConnection, tables_dir: Path) -> StepFindings:
    """What is found in the steps of all runs; it looks only at those of which `tables_dir` keeps nothing.

    Queries may join `steady_rank` afterwards, the sums of each rank (see `analysis.steady`).
    """
    path = tables_dir / FILE_NAME
    kept = _kept(tables, path)
    there = {_run(row) for row in kept}
    asked = [run for row in fetch(tables, _RUNS) if (run := _run(row)) not in there]
    new = warm_ups(tables, asked if kept else None)
    slow = slow_ranks(tables)
    if kept:
        tables.execute(_ALL_RANKS)
    found = StepFindings(
        {_run(row): _warm_up(row) for row in kept if row["reason"]} | new,
        {_run(row): _stragglers(row) for row in kept if row["stragglers"]} | slow,
    )
    if asked:
        # Somebody else's tables may be read only; then they are looked at again next time.
        with suppress(OSError, duckdb.Error):
            _keep(tables, found, path)
    return found


def _keep(tables: duckdb.DuckDBPyConnection, found: StepFindings, path: Path) -> None:
    tables.execute(_WARM_UPS)
    of_runs = found.warm_ups.items()
    fill(tables, "warm_up", [(*run, *astuple(one)) for run, one in of_runs])
    tables.execute(_STRAGGLERS)
    of_ranks = [
        (*run, place, one.rank, one.node, *astuple(one.ratio), one.share)
        for run, named in found.stragglers.items()
        for place, one in enumerate(named)
    ]
    fill(tables, "straggler", of_ranks)
    with replacing(path) as target:
        parquet(tables, _FINDINGS, target)


def _kept(tables: duckdb.DuckDBPyConnection, path: Path) -> list[dict[str, Any]]:
    try:
        tables.execute(_TAKE, {"path": literal(path)})
    except duckdb.Error:
        # It is not there yet or damaged: all can be found again.
        return []
    return fetch(tables, _KEPT)


def _run(row: Row) -> Run:
    return row["experiment"], row["run_id"]


def _warm_up(row: Row) -> WarmUp:
    return WarmUp(
        row["warm_up_steps"], row["is_stationary"], row["reason"], row["excess"], row["left_out"]
    )


def _stragglers(row: Row) -> list[Straggler]:
    return [
        Straggler(
            one["rank"],
            one["node"],
            Estimate(one["n"], one["mean"], one["low"], one["high"]),
            one["share"],
        )
        for one in row["stragglers"]
    ]

"""Open the tables of a study, with runs grouped by setup and cached findings from their steps.

Reading all steps of a large study takes longer than the rest of its report. Findings of a run are valid
until its files change, so they are cached beside the tables.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import duckdb

from argosy.report.runs.setups import NamedSetup, name_setups
from argosy.report.runs.steady import RANK_COLUMNS, steady_states
from argosy.report.runs.stragglers import Straggler, slow_ranks
from argosy.report.runs.warmup import WarmUp
from argosy.report.statistics.estimates import Estimate
from argosy.results.own_tables import is_own, mark
from argosy.results.tables import (
    TABLES_VERSION,
    Run,
    asked_of,
    fetch,
    fill,
    literal,
    open_tables,
    parquet,
    rows_of,
)
from argosy_common.files import replacing

FINDINGS_VERSION = 8
"""Version of the rules for findings; findings of other versions are recomputed."""

FILE_NAME = "step_findings.parquet"

Row = Mapping[str, Any]

_MADE_FROM = f"files_fingerprint || ' tables {TABLES_VERSION} findings {FINDINGS_VERSION}'"
_TAKE = f"""
CREATE TEMP TABLE kept AS
SELECT found.* FROM read_parquet($path, hive_partitioning = false) AS found
JOIN runs USING (experiment, run_id)
WHERE made_from = {_MADE_FROM}
"""
_OF_RUNS = "SELECT * EXCLUDE steady_ranks FROM given"
_OF_RANKS = f"""
SELECT experiment, run_id, {", ".join(RANK_COLUMNS)} FROM (
    SELECT experiment, run_id, unnest(steady_ranks, recursive := true) FROM given
)
"""

_NAMES_OF_RUNS = "SELECT experiment, run_id FROM runs ORDER BY experiment, run_id"

_WARM_UPS = """
CREATE TEMP TABLE warm_up (
    experiment VARCHAR, run_id VARCHAR, warm_up_steps BIGINT, is_stationary BOOLEAN, reason VARCHAR,
    excess DOUBLE, left_out BOOLEAN, slower_from BIGINT, slower DOUBLE
)
"""
_STRAGGLERS = """
CREATE TEMP TABLE straggler (
    experiment VARCHAR, run_id VARCHAR, place INTEGER, rank INTEGER, node INTEGER, n INTEGER,
    mean DOUBLE, low DOUBLE, high DOUBLE, share DOUBLE
)
"""
_OF_WARM_UP = (
    *("warm_up_steps", "is_stationary", "reason", "excess"),
    *("left_out", "slower_from", "slower"),
)
_FINDINGS = f"""
WITH of_ranks AS (
    SELECT experiment, run_id,
        list(struct_pack({", ".join(RANK_COLUMNS)}) ORDER BY rank) AS steady_ranks
    FROM rank_sums GROUP BY ALL
), of_stragglers AS (
    SELECT experiment, run_id,
        list(struct_pack(rank, node, n, mean, low, high, share) ORDER BY place) AS stragglers
    FROM straggler GROUP BY ALL
)
SELECT experiment, run_id, {_MADE_FROM} AS made_from, {", ".join(_OF_WARM_UP)}, steady_ranks, stragglers
FROM runs LEFT JOIN warm_up USING (experiment, run_id)
LEFT JOIN of_ranks USING (experiment, run_id) LEFT JOIN of_stragglers USING (experiment, run_id)
ORDER BY experiment, run_id
"""


@dataclass(frozen=True)
class StepFindings:
    """Warm-ups of runs with recorded steps, and stragglers, by run; `rank_sums` as in `SteadyStates`."""

    warm_ups: Mapping[Run, WarmUp]
    stragglers: Mapping[Run, Sequence[Straggler]]
    rank_sums: duckdb.DuckDBPyRelation


def step_findings(tables: duckdb.DuckDBPyConnection, tables_dir: Path) -> StepFindings:
    """Return the findings of all runs; those without cached findings are examined and cached."""
    path = tables_dir / FILE_NAME
    before = _kept(tables, path)
    kept = rows_of(asked_of(before, _OF_RUNS)) if before else []
    there = {_run(row) for row in kept}
    asked = [run for row in fetch(tables, _NAMES_OF_RUNS) if (run := _run(row)) not in there]
    new = steady_states(tables, asked if kept else None)
    found = StepFindings(
        {_run(row): _warm_up(row) for row in kept if row["reason"]} | {**new.warm_ups},
        {_run(row): _stragglers(row) for row in kept if row["stragglers"]}
        | slow_ranks(tables, new.rank_sums),
        _together(tables, new.rank_sums, before) if before else new.rank_sums,
    )
    if asked:
        # Tables may be read-only; then the next report examines these runs again.
        with suppress(OSError, duckdb.Error):
            _keep(tables, found, path)
    return found


def _together(
    tables: duckdb.DuckDBPyConnection,
    new: duckdb.DuckDBPyRelation,
    kept: duckdb.DuckDBPyRelation,
) -> duckdb.DuckDBPyRelation:
    """Join the sums of new and cached runs."""
    both = new.union(asked_of(kept, _OF_RANKS))
    both.order("experiment, run_id, rank").create("rank_sums_of_all")
    return tables.table("rank_sums_of_all")


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
    found.rank_sums.create_view("rank_sums")
    with replacing(path) as target:
        parquet(tables, _FINDINGS, target)
    mark(path)


def _kept(tables: duckdb.DuckDBPyConnection, path: Path) -> duckdb.DuckDBPyRelation | None:
    if not is_own(path):
        return None
    try:
        tables.execute(_TAKE, {"path": literal(path)})
    except (OSError, duckdb.Error):
        # A damaged cache is recomputed.
        return None
    return tables.table("kept")


def _run(row: Row) -> Run:
    return row["experiment"], row["run_id"]


def _warm_up(row: Row) -> WarmUp:
    return WarmUp(*(row[name] for name in _OF_WARM_UP))


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


# Tables whose rows analyses pool by experiment.
_POOLED = ("steps", "metrics", "printed", "collectives", "layers", "timeline", "telemetry", "gpus")

_RUNS = """
CREATE TEMP VIEW runs AS
SELECT found.* REPLACE (coalesce(setup_name, experiment) AS experiment), experiment AS asked_experiment,
    avg(CASE WHEN state = 'completed' THEN 0 WHEN state NOT IN ('pending', 'unfinished') THEN 1 END)
        OVER (PARTITION BY coalesce(setup_name, experiment), nodes, ranks_per_node) AS lost
FROM memory.main.runs AS found LEFT JOIN name_of_run USING (experiment, run_id)
"""
_RENAMED = """
CREATE TEMP {kind} {table} AS
SELECT found.* REPLACE (coalesce(setup_name, experiment) AS experiment)
FROM {source} AS found LEFT JOIN name_of_run USING (experiment, run_id)
"""


@dataclass(frozen=True)
class StudyTables:
    """An open study, in which `experiment` is the name of a setup (`NamedSetup`).

    The connection has the tables of `results.tables.COLUMNS`, and `steady_rank` (`SteadyStates.rank_sums`).
    `runs` also has `asked_experiment`, and `lost`: the share of its size's ended runs without a result.
    """

    database: duckdb.DuckDBPyConnection
    setups: Mapping[str, NamedSetup]
    warm_ups: Mapping[Run, WarmUp]
    stragglers: Mapping[Run, Sequence[Straggler]]

    def fetch(
        self, query: str, parameters: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """Return all rows of a query as dictionaries."""
        return fetch(self.database, query, parameters)


@contextmanager
def open_study(tables_dir: Path) -> Iterator[StudyTables]:
    """Open the tables of a study.

    Raises:
        ResultsError: A table is missing or has another version.
    """
    with open_tables(tables_dir) as database:
        found = step_findings(database, tables_dir)
        setups = name_setups(database)
        _name_by_setups(database, setups.of_runs, found.rank_sums)
        yield StudyTables(
            database,
            setups.by_name,
            setups.renamed(found.warm_ups),
            setups.renamed(found.stragglers),
        )


def _name_by_setups(
    database: duckdb.DuckDBPyConnection,
    of_runs: Mapping[Run, str],
    rank_sums: duckdb.DuckDBPyRelation,
) -> None:
    database.execute(
        "CREATE TEMP TABLE name_of_run (experiment VARCHAR, run_id VARCHAR, setup_name VARCHAR)"
    )
    fill(database, "name_of_run", [(*run, name) for run, name in of_runs.items()])
    database.execute(_RUNS)
    if not of_runs:
        rank_sums.create_view("steady_rank")
        return
    for table in _POOLED:
        source = f"memory.main.{table}"
        database.execute(_RENAMED.format(kind="VIEW", table=table, source=source))
    rank_sums.create_view("rank_sums_by_experiment")
    database.execute(
        _RENAMED.format(kind="TABLE", table="steady_rank", source="rank_sums_by_experiment")
    )

"""Open the tables of a study, with runs grouped by setup and cached findings from their steps.

Reading all steps of a large study takes longer than the rest of its report. Findings of a run are valid
until its files change, so they are cached beside the tables.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from pydantic import TypeAdapter

from argosy.report.runs.setups import NamedSetup, name_setups
from argosy.report.runs.steady import RANK_COLUMNS, steady_states
from argosy.report.runs.stragglers import Straggler, slow_ranks
from argosy.report.runs.warmup import WarmUp
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
SELECT experiment, run_id, cached.findings, cached.steady_ranks
FROM read_parquet($path, hive_partitioning = false) AS cached JOIN runs USING (experiment, run_id)
WHERE made_from = {_MADE_FROM}
"""
_OF_RUNS = "SELECT experiment, run_id, findings FROM given"
_OF_RANKS = f"""
SELECT experiment, run_id, {", ".join(RANK_COLUMNS)} FROM (
    SELECT experiment, run_id, unnest(steady_ranks, recursive := true) FROM given
)
"""

_NAMES_OF_RUNS = "SELECT experiment, run_id FROM runs ORDER BY experiment, run_id"

_FOUND = "CREATE TEMP TABLE found (experiment VARCHAR, run_id VARCHAR, findings VARCHAR)"
_FINDINGS = f"""
WITH of_ranks AS (
    SELECT experiment, run_id,
        list(struct_pack({", ".join(RANK_COLUMNS)}) ORDER BY rank) AS steady_ranks
    FROM rank_sums GROUP BY ALL
)
SELECT experiment, run_id, {_MADE_FROM} AS made_from, findings, steady_ranks
FROM runs JOIN found USING (experiment, run_id) LEFT JOIN of_ranks USING (experiment, run_id)
ORDER BY experiment, run_id
"""


@dataclass(frozen=True)
class _Findings:
    """The findings of a run in its steps, cached as JSON."""

    warm_up: WarmUp | None
    stragglers: list[Straggler]


_JSON = TypeAdapter(_Findings)


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
    found = {_run(row): _JSON.validate_json(row["findings"]) for row in kept}
    asked = [run for row in fetch(tables, _NAMES_OF_RUNS) if (run := _run(row)) not in found]
    new = steady_states(tables, asked if found else None)
    slow = slow_ranks(tables, new.rank_sums)
    found |= {run: _Findings(new.warm_ups.get(run), slow.get(run, [])) for run in asked}
    rank_sums = _together(tables, new.rank_sums, before) if before else new.rank_sums
    if asked:
        # Tables may be read-only; then the next report examines these runs again.
        with suppress(OSError, duckdb.Error):
            _keep(tables, found, rank_sums, path)
    return StepFindings(
        {run: one.warm_up for run, one in found.items() if one.warm_up},
        {run: one.stragglers for run, one in found.items() if one.stragglers},
        rank_sums,
    )


def _together(
    tables: duckdb.DuckDBPyConnection,
    new: duckdb.DuckDBPyRelation,
    kept: duckdb.DuckDBPyRelation,
) -> duckdb.DuckDBPyRelation:
    """Join the sums of new and cached runs."""
    both = new.union(asked_of(kept, _OF_RANKS))
    both.order("experiment, run_id, rank").create("rank_sums_of_all")
    return tables.table("rank_sums_of_all")


def _keep(
    tables: duckdb.DuckDBPyConnection,
    found: Mapping[Run, _Findings],
    rank_sums: duckdb.DuckDBPyRelation,
    path: Path,
) -> None:
    tables.execute(_FOUND)
    fill(tables, "found", [(*run, _JSON.dump_json(one).decode()) for run, one in found.items()])
    rank_sums.create_view("rank_sums")
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

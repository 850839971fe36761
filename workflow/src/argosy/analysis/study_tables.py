"""The tables of a study as analyses see them: runs by their setups, and what is found in their steps."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from argosy.analysis.setups import NamedSetup, name_setups
from argosy.analysis.step_findings import step_findings
from argosy.analysis.stragglers import Straggler
from argosy.analysis.warmup import WarmUp
from argosy.results.tables import Run, fetch, fill, open_tables

# Tables of which analyses pool rows by the experiment's name.
_POOLED = ("steps", "metrics", "printed", "collectives", "layers", "timeline", "telemetry", "gpus")

_RUNS = """
CREATE TEMP VIEW runs AS
SELECT found.* REPLACE (coalesce(setup_name, experiment) AS experiment), experiment AS asked_experiment
FROM memory.main.runs AS found LEFT JOIN name_of_run USING (experiment, run_id)
"""
_RENAMED = """
CREATE TEMP {kind} {table} AS
SELECT found.* REPLACE (coalesce(setup_name, experiment) AS experiment)
FROM {source} AS found LEFT JOIN name_of_run USING (experiment, run_id)
"""


@dataclass(frozen=True)
class StudyTables:
    """What `open_study` gives: a connection in which an experiment is a setup's name (see `NamedSetup`).

    Queries find the tables of `results.tables.COLUMNS`, with a column `asked_experiment` in `runs`, and the
    table `steady_rank`: what each rank did in its run's steady state (`SteadyStates.rank_sums`).
    """

    database: duckdb.DuckDBPyConnection
    setups: Mapping[str, NamedSetup]
    warm_ups: Mapping[Run, WarmUp]
    stragglers: Mapping[Run, Sequence[Straggler]]

    def fetch(
        self, query: str, parameters: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """Return all rows of a query, as `results.tables.rows_of`."""
        return fetch(self.database, query, parameters)


@contextmanager
def open_study(tables_dir: Path) -> Iterator[StudyTables]:
    """Give the tables of a study. Raises ResultsError for tables that are missing or of another version."""
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

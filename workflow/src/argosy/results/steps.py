"""The steps of newly read runs: one Parquet file, and what is wrong with them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb

from argosy.results.long_lines import without_long_lines
from argosy.results.plain_steps import is_compiled
from argosy.results.records import (
    STEPS,
    RecordFile,
    hold_steps,
    name_records,
    with_more_lines,
)
from argosy.results.step_batches import StepBatches
from argosy.results.tables import Run, fetch, parquet, set_view

VIEW = "new_steps"

# The type keeps DuckDB from looking at the texts of each row, which takes it as long as all numbers.
_BATCHES = """
SELECT * REPLACE (
    CAST(experiment AS new_experiment) AS experiment, CAST(run_id AS new_run_id) AS run_id
)
FROM new_batch
"""

# Six times the sum of the squares up to a number, which soon takes more than 64 bits.
_CUBE = "CAST({0} AS HUGEINT) * ({0} + 1) * (2 * {0} + 1)"
# Of whole numbers from first to last, each once, these are the sums.
_RANKS = f"""
CREATE TABLE new_rank AS
SELECT experiment, run_id, rank, count(*) AS n, min(step) AS first, max(step) AS last,
    n <> last - first + 1
    OR 2 * sum(step) <> (first + last) * n
    OR 6 * sum(step * step) <> {_CUBE.format("last")} - {_CUBE.format("(first - 1)")}
    AS is_odd
FROM {VIEW} GROUP BY ALL
"""

_DUPLICATES = f"""
CREATE TABLE duplicate AS
SELECT experiment, run_id, count(*) - count(DISTINCT (rank, step)) AS n
FROM {VIEW} SEMI JOIN (SELECT DISTINCT experiment, run_id FROM new_rank WHERE is_odd)
    USING (experiment, run_id)
GROUP BY ALL HAVING n > 0
"""

_ONCE = f"""
SELECT * FROM {VIEW} ANTI JOIN duplicate USING (experiment, run_id)
UNION ALL
SELECT * EXCLUDE file_row_number
FROM read_parquet(getvariable('{VIEW}_path'), file_row_number = true)
SEMI JOIN duplicate USING (experiment, run_id)
QUALIFY row_number() OVER (
    PARTITION BY experiment, run_id, rank, step ORDER BY file_row_number
) = 1
"""

# After a step in which gradients were exchanged no rank is far ahead of another.
_CLOCKS = f"""
SELECT experiment, run_id, max(start_s + seconds) - min(start_s + seconds) AS spread_s
FROM {VIEW} JOIN (SELECT experiment, run_id, min(last) AS step FROM new_rank GROUP BY ALL)
    USING (experiment, run_id, step)
GROUP BY ALL HAVING count(start_s) > 1
"""

_MISSING = """
SELECT experiment, run_id, (max(last) - min(first) + 1) * count(*) - sum(n) AS missing
FROM new_rank GROUP BY ALL
"""


@dataclass(frozen=True)
class Steps:
    """What was found among the steps of the newly read runs, by run.

    `counts` is how many good steps were recorded, by experiment, run_id and rank; `repeated` how many
    more a later job did again, but for those among the lines of `more`: files with all that is recorded
    besides steps.
    """

    counts: Mapping[tuple[str, str, int], int] = field(default_factory=dict)
    more: Sequence[RecordFile] = ()
    repeated: Mapping[Run, int] = field(default_factory=dict)
    duplicates: Mapping[Run, int] = field(default_factory=dict)
    missing: Mapping[Run, int] = field(default_factory=dict)
    clock_spreads_s: Mapping[Run, float] = field(default_factory=dict)

    def ranks_of(self, run: Run) -> set[int]:
        """The ranks of a run that recorded any step."""
        return self._ranks.get(run, set())

    @cached_property
    def _ranks(self) -> Mapping[Run, set[int]]:
        ranks: dict[Run, set[int]] = {}
        for experiment, run_id, rank in self.counts:
            ranks.setdefault((experiment, run_id), set()).add(rank)
        return ranks


def write_steps(
    database: duckdb.DuckDBPyConnection, files: Sequence[RecordFile], work: Path, part: Path
) -> Steps:
    """Write the steps in `files` to `part`, each once, in the order of the files.

    Other lines may be put into files below the folder `work`.
    """
    plain = _write_plain(database, files, work, part) if is_compiled() else None
    if plain is None:
        files = without_long_lines(files, work)
        parquet(database, STEPS, part, name_records(database, files))
    set_view(database, VIEW, part)
    database.execute(_RANKS)
    counts = {
        (row["experiment"], row["run_id"], row["rank"]): row["n"]
        for row in fetch(database, "SELECT experiment, run_id, rank, n FROM new_rank")
    }
    database.execute(_DUPLICATES)
    duplicates = _by_run(database, "SELECT * FROM duplicate", "n")
    if duplicates:
        _write_once(database, part)
    missing = _by_run(database, _MISSING, "missing")
    return Steps(
        counts=counts,
        more=plain.more if plain else with_more_lines(files, counts),
        repeated=plain.repeated if plain else {},
        duplicates=duplicates,
        missing={run: missing[run] + duplicates.get(run, 0) for run in missing},
        clock_spreads_s=_by_run(database, _CLOCKS, "spread_s"),
    )


def _write_plain(
    database: duckdb.DuckDBPyConnection, files: Sequence[RecordFile], work: Path, part: Path
) -> StepBatches | None:
    """Write the steps by the compiled reader.

    None where DuckDB has to read all: a file has steps of another form, or cannot be read; of what is
    wrong there DuckDB tells.
    """
    for column in ("experiment", "run_id"):
        names = sorted({getattr(file, column) for file in files})
        database.execute(
            "CREATE OR REPLACE TABLE new_name AS SELECT unnest($names) AS name", {"names": names}
        )
        database.execute(f"CREATE TYPE new_{column} AS ENUM (FROM new_name)")
    batches = StepBatches(files, work)
    database.register("new_batch", batches.stream())
    try:
        parquet(database, _BATCHES, part)
    except duckdb.Error:
        if batches.problem:
            return None
        raise
    finally:
        database.unregister("new_batch")
    return None if hold_steps(database, batches.more) else batches


def _write_once(database: duckdb.DuckDBPyConnection, part: Path) -> None:
    once = part.with_suffix(".once")
    parquet(database, _ONCE, once)
    once.replace(part)


def _by_run(database: duckdb.DuckDBPyConnection, query: str, column: str) -> dict[Run, Any]:
    return {(row["experiment"], row["run_id"]): row[column] for row in fetch(database, query)}

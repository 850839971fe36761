"""Writes the steps of newly read runs to one Parquet file, and counts their faults."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from argosy.results.step_rows import StepBatches, StepFile
from argosy.results.tables import PHASES, Run, fetch, set_view, write_table
from argosy.runtime.contract.steps import MOST_STEP
from argosy_common.reading import NotReadError

VIEW = "new_steps"

# With the ENUM type DuckDB does not scan each row's text, which would take as long as all numbers.
# DuckDB treats NaN as equal to NaN.
_TIMES = ("start_s", *(f"{phase}_s" for phase in PHASES))
_BATCHES = f"""
SELECT * REPLACE (
    CAST(experiment AS new_experiment) AS experiment, CAST(run_id AS new_run_id) AS run_id,
    CASE WHEN epoch BETWEEN 0 AND {MOST_STEP} THEN epoch END AS epoch,
    {", ".join(f"nullif({time}, 'NaN'::DOUBLE) AS {time}" for time in _TIMES)}
)
FROM new_batch
"""

# Six times the sum of the squares up to a number, which may exceed 64 bits.
_CUBE = "CAST({0} AS HUGEINT) * ({0} + 1) * (2 * {0} + 1)"
# Detects duplicates and gaps by comparing count, sum and sum of squares with those of first..last.
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
UNION ALL BY NAME
SELECT * EXCLUDE file_row_number
FROM read_parquet(getvariable('{VIEW}_path'), file_row_number = true)
SEMI JOIN duplicate USING (experiment, run_id)
QUALIFY row_number() OVER (
    PARTITION BY experiment, run_id, rank, step ORDER BY file_row_number
) = 1
"""

# Ranks end a step with a gradient exchange almost together.
_CLOCKS = f"""
SELECT experiment, run_id, max(start_s + seconds) - min(start_s + seconds) AS spread_s
FROM {VIEW} JOIN (SELECT experiment, run_id, min(last) AS step FROM new_rank GROUP BY ALL)
    USING (experiment, run_id, step)
GROUP BY ALL HAVING count(start_s) > 1
"""

_WITH_STEPS = "SELECT experiment, run_id, list(rank) AS ranks FROM new_rank GROUP BY ALL"

_MISSING = """
SELECT experiment, run_id, (max(last) - min(first) + 1) * count(*) - sum(n) AS missing
FROM new_rank GROUP BY ALL
"""


@dataclass(frozen=True)
class Steps:
    """Statistics of the steps of newly read runs, by run.

    `ranks` have recorded any step. `repeated` counts steps that a later job repeated, `unreadable` damaged
    or truncated rows.
    """

    ranks: Mapping[Run, Collection[int]] = field(default_factory=dict)
    repeated: Mapping[Run, int] = field(default_factory=dict)
    unreadable: Mapping[Run, int] = field(default_factory=dict)
    duplicates: Mapping[Run, int] = field(default_factory=dict)
    missing: Mapping[Run, int] = field(default_factory=dict)
    clock_spreads_s: Mapping[Run, float] = field(default_factory=dict)


def write_steps(
    database: duckdb.DuckDBPyConnection, files: Sequence[StepFile], part: Path
) -> Steps:
    """Write the steps in `files` to `part` without duplicates, in file order.

    Raises NotReadError for an unreadable file.
    """
    batches = _write_batches(database, files, part)
    set_view(database, VIEW, part)
    database.execute(_RANKS)
    database.execute(_DUPLICATES)
    duplicates = _by_run(database, "SELECT * FROM duplicate", "n")
    if duplicates:
        _write_once(database, part)
    missing = _by_run(database, _MISSING, "missing")
    return Steps(
        ranks=_by_run(database, _WITH_STEPS, "ranks"),
        repeated=batches.repeated,
        unreadable=batches.unreadable,
        duplicates=duplicates,
        missing={run: missing[run] + duplicates.get(run, 0) for run in missing},
        clock_spreads_s=_by_run(database, _CLOCKS, "spread_s"),
    )


def _write_batches(
    database: duckdb.DuckDBPyConnection, files: Sequence[StepFile], part: Path
) -> StepBatches:
    for column in ("experiment", "run_id"):
        names = sorted({getattr(file, column) for file in files})
        database.execute(
            "CREATE OR REPLACE TABLE new_name AS SELECT unnest($names) AS name", {"names": names}
        )
        database.execute(f"CREATE TYPE new_{column} AS ENUM (FROM new_name)")
    batches = StepBatches(files)
    database.register("new_batch", batches.stream())
    try:
        write_table(database, "steps", [_BATCHES], part)
    except duckdb.Error:
        if batches.problem:
            path, why = Path(str(batches.problem.filename)), batches.problem.strerror
            raise NotReadError(path, why or "cannot be read") from None
        raise
    finally:
        database.unregister("new_batch")
    return batches


def _write_once(database: duckdb.DuckDBPyConnection, part: Path) -> None:
    once = part.with_suffix(".once")
    write_table(database, "steps", [_ONCE], once)
    once.replace(part)


def _by_run(database: duckdb.DuckDBPyConnection, query: str, column: str) -> dict[Run, Any]:
    return {(row["experiment"], row["run_id"]): row[column] for row in fetch(database, query)}

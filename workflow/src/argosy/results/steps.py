"""Writes the steps of newly read runs to one Parquet file, and counts their faults."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

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
_OF_RUNS = f"""
WITH clock AS (
    SELECT experiment, run_id, max(start_s + seconds) - min(start_s + seconds) AS spread_s
    FROM {VIEW} JOIN (SELECT experiment, run_id, min(last) AS step FROM new_rank GROUP BY ALL)
        USING (experiment, run_id, step)
    GROUP BY ALL HAVING count(start_s) > 1
)
SELECT experiment, run_id, list(rank) AS ranks, coalesce(any_value(duplicate.n), 0) AS duplicates,
    duplicates + (max(last) - min(first) + 1) * count(*) - sum(new_rank.n) AS missing,
    any_value(spread_s) AS clock_spread_s
FROM new_rank LEFT JOIN duplicate USING (experiment, run_id) LEFT JOIN clock USING (experiment, run_id)
GROUP BY experiment, run_id
"""


@dataclass(frozen=True)
class Steps:
    """The steps of a newly read run.

    `ranks` have recorded any step. `repeated` counts steps that a later job repeated, `unreadable` damaged
    or truncated rows.
    """

    ranks: Collection[int] = ()
    duplicates: int = 0
    missing: int = 0
    clock_spread_s: float | None = None
    repeated: int = 0
    unreadable: int = 0


def write_steps(
    database: duckdb.DuckDBPyConnection, files: Sequence[StepFile], part: Path
) -> dict[Run, Steps]:
    """Write the steps in `files` to `part` without duplicates, in file order.

    Raises NotReadError for an unreadable file.
    """
    batches = _write_batches(database, files, part)
    set_view(database, VIEW, part)
    database.execute(_RANKS)
    database.execute(_DUPLICATES)
    if fetch(database, "SELECT 1 FROM duplicate LIMIT 1"):
        _write_once(database, part)
    found = {(row.pop("experiment"), row.pop("run_id")): row for row in fetch(database, _OF_RUNS)}
    return {
        run: Steps(
            **found.get(run, {}),
            repeated=batches.repeated[run],
            unreadable=batches.unreadable[run],
        )
        for run in {file.run for file in files}
    }


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

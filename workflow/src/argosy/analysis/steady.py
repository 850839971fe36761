"""Where the steady state of each run begins: what lies before is left out of every mean."""

from collections.abc import Mapping
from dataclasses import dataclass

import duckdb

from argosy.analysis.warmup import WarmUp, warm_up
from argosy.results.tables import fetch

# Ranks wait for each other, so their mean says how long a step took.
_SERIES = """
WITH of_step AS (
    SELECT experiment, run_id, step, greatest(avg(seconds), 1e-9) AS seconds FROM steps GROUP BY ALL
)
SELECT experiment, run_id, list(step ORDER BY step) AS steps, list(seconds ORDER BY step) AS seconds
FROM of_step GROUP BY ALL ORDER BY experiment, run_id
"""

_TABLE = "CREATE OR REPLACE TEMP TABLE steady (experiment VARCHAR, run_id VARCHAR, first BIGINT)"


@dataclass(frozen=True)
class Steady:
    """What a run's steps say of its warm-up; `first` is the first step that counts."""

    warm_up: WarmUp
    first: int


def steady_states(tables: duckdb.DuckDBPyConnection) -> Mapping[tuple[str, str], Steady]:
    """The steady state of each run that recorded steps, by experiment and run_id.

    Queries may join the table `steady` (experiment, run_id, first) afterwards.
    """
    found = {
        (row["experiment"], row["run_id"]): _steady(row["steps"], row["seconds"])
        for row in fetch(tables, _SERIES)
    }
    tables.execute(_TABLE)
    if found:
        columns = [
            [run[0] for run in found],
            [run[1] for run in found],
            [steady.first for steady in found.values()],
        ]
        tables.execute("INSERT INTO steady SELECT unnest($1), unnest($2), unnest($3)", columns)
    return found


def _steady(steps: list[int], seconds: list[float]) -> Steady:
    found = warm_up(seconds)
    return Steady(found, steps[found.steps])

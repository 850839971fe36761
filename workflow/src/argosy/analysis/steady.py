"""The steady state of each run: what lies before is left out of every mean.

The steps of a large study are read once: every rank's sums over its steady state are what throughput, step
times and factors are made of.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import duckdb

from argosy.analysis.warmup import WarmUp, warm_up
from argosy.results.tables import PHASES, fetch

OTHER = "other"
"""What no phase covers."""

# Ranks wait for each other, so their mean says how long a step took.
_SERIES = """
WITH of_step AS (
    SELECT experiment, run_id, step, greatest(avg(seconds), 1e-9) AS seconds FROM steps GROUP BY ALL
)
SELECT experiment, run_id, list(step ORDER BY step) AS steps, list(seconds ORDER BY step) AS seconds
FROM of_step GROUP BY ALL ORDER BY experiment, run_id
"""

_STEADY = "CREATE OR REPLACE TEMP TABLE steady (experiment VARCHAR, run_id VARCHAR, first BIGINT)"
_COVERED = " + ".join(f"coalesce({phase}_s, 0)" for phase in PHASES)
_STEADY_RANK = f"""
CREATE OR REPLACE TEMP TABLE steady_rank AS
SELECT experiment, run_id, rank, first, count(*) AS steps, max(step) AS last, sum(samples) AS samples,
    sum(seconds) AS seconds, {", ".join(f"sum({phase}_s) AS {phase}" for phase in PHASES)},
    sum(greatest(0, seconds - ({_COVERED}))) AS {OTHER}
FROM steps JOIN steady USING (experiment, run_id) WHERE step >= first GROUP BY ALL
"""


@dataclass(frozen=True)
class Steady:
    """What a run's steps say of its warm-up; `first` is the first step that counts."""

    warm_up: WarmUp
    first: int


def steady_states(tables: duckdb.DuckDBPyConnection) -> Mapping[tuple[str, str], Steady]:
    """The steady state of each run that recorded steps, by experiment and run_id.

    Queries may join two tables afterwards: `steady` (experiment, run_id, first), and `steady_rank`, what
    each rank did from `first` to `last`: how many `steps` and `samples`, and the sums of `seconds`, of each
    phase (NULL where no step names it) and of what no phase covers.
    """
    found = {
        (row["experiment"], row["run_id"]): _steady(row["steps"], row["seconds"])
        for row in fetch(tables, _SERIES)
    }
    tables.execute(_STEADY)
    if found:
        columns = [
            [run[0] for run in found],
            [run[1] for run in found],
            [steady.first for steady in found.values()],
        ]
        tables.execute("INSERT INTO steady SELECT unnest($1), unnest($2), unnest($3)", columns)
    tables.execute(_STEADY_RANK)
    return found


def _steady(steps: list[int], seconds: list[float]) -> Steady:
    found = warm_up(seconds)
    return Steady(found, steps[found.steps])

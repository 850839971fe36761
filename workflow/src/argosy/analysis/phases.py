"""Where the time of a step goes, at each point."""

from collections.abc import Mapping
from dataclasses import dataclass

import duckdb

from argosy.analysis.measurements import Point
from argosy.results.tables import PHASES, fetch

OTHER = "other"

_COLUMNS = ("step_s", *PHASES, OTHER)
_COVERED = " + ".join(f"coalesce({phase}_s, 0)" for phase in PHASES)
# A phase that is not named took no time; one that no step of a point names stays NULL. Means of
# means: every rank and every repeat weighs the same.
_MEANS = ", ".join(f"sum({name}) / count(*) AS {name}" for name in _COLUMNS)

_QUERY = f"""
WITH of_step AS (
    SELECT experiment, run_id, rank, seconds AS step_s,
        {", ".join(f"{phase}_s AS {phase}" for phase in PHASES)},
        greatest(0, seconds - ({_COVERED})) AS {OTHER}
    FROM steps JOIN steady USING (experiment, run_id) WHERE step >= first
), of_rank AS (
    SELECT experiment, run_id, rank, {_MEANS} FROM of_step GROUP BY ALL
), of_run AS (
    SELECT experiment, run_id, {_MEANS} FROM of_rank GROUP BY ALL
)
SELECT experiment, nodes, ranks_per_node, runs.ranks, {_MEANS}
FROM of_run JOIN runs USING (experiment, run_id)
WHERE state = 'completed' AND len(missing_ranks) = 0
GROUP BY ALL ORDER BY experiment, ranks, nodes
"""


@dataclass(frozen=True)
class StepTime:
    """Mean seconds of a step, and of each phase in it; what no phase covers is `other`."""

    step_s: float
    phases_s: Mapping[str, float]


def step_times(tables: duckdb.DuckDBPyConnection) -> dict[tuple[str, Point], StepTime]:
    """Step times by (experiment, point): means over steps, then ranks, then repeats.

    Steps before the steady state and runs with missing ranks are left out, as for the throughput: the
    table `steady` has to be there (`steady_states`).
    """
    return {
        (row["experiment"], Point(row["ranks"], row["nodes"], row["ranks_per_node"])): StepTime(
            step_s=row["step_s"],
            phases_s={name: row[name] for name in (*PHASES, OTHER) if row[name] is not None},
        )
        for row in fetch(tables, _QUERY)
    }

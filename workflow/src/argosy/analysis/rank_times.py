"""What each rank of a run did over the steps of its steady state, from the tables."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from argosy.analysis.factors import RankTimes
from argosy.analysis.steady import OTHER
from argosy.analysis.study_tables import StudyTables
from argosy.results.tables import PHASES

_LISTS = ", ".join(
    f"list(coalesce({name}, 0) ORDER BY rank) FILTER (run_has_{name}) AS {name}" for name in PHASES
)
_HAS = ", ".join(
    f"count({name}) OVER (PARTITION BY experiment, run_id) > 0 AS run_has_{name}" for name in PHASES
)

_QUERY = f"""
WITH told AS (
    SELECT *, {_HAS} FROM steady_rank
)
SELECT experiment, run_id, list(samples ORDER BY rank) AS samples,
    list({OTHER} ORDER BY rank) AS {OTHER}, {_LISTS}
FROM told JOIN runs USING (experiment, run_id)
WHERE state = 'completed' AND len(missing_ranks) = 0
GROUP BY ALL ORDER BY experiment, run_id
"""


def rank_times(tables: StudyTables) -> Mapping[tuple[str, str], RankTimes]:
    """Return the throughput by experiment and run_id, of each completed run with samples and all its ranks.

    A phase that no rank of a run recorded is not among its phases; what no phase covers is `other`.
    """
    return {
        (row["experiment"], row["run_id"]): _times(row)
        for row in tables.fetch(_QUERY)
        if sum(row["samples"]) > 0
    }


def _times(row: Mapping[str, Any]) -> RankTimes:
    recorded = {name: row[name] for name in (*PHASES, OTHER) if row[name] is not None}
    return RankTimes(
        phases_s={name: np.asarray(seconds, np.float64) for name, seconds in recorded.items()},
        samples=np.asarray(row["samples"], np.float64),
    )

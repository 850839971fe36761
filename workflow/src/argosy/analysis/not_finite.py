"""Losses and metrics of completed runs that are NaN, infinite or as good as: which, whose, since when."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from argosy.analysis.study_tables import StudyTables
from argosy.results.rows import PRINTED_LOSS
from argosy.results.tables import Run

DIVERGED = 1e100
"""A metric beyond it is of a training that diverged, as good as infinite."""

_QUERY = f"""
WITH odd AS (
    SELECT experiment, run_id, rank, name, at_s,
        coalesce(value_text, CAST(value_number AS VARCHAR)) AS value,
        count(DISTINCT rank) OVER (PARTITION BY experiment, run_id, name) AS ranks
    FROM metrics
    WHERE name = $printed OR NOT abs(value_number) < {DIVERGED}
        OR lower(value_text) IN ('nan', 'inf', '-inf', 'infinity', '-infinity')
), first_odd AS (
    SELECT * FROM odd
    QUALIFY row_number() OVER (PARTITION BY experiment, run_id, name ORDER BY at_s, rank) = 1
)
SELECT first_odd.*, max(steps.step) AS step
FROM first_odd LEFT JOIN steps ON steps.experiment = first_odd.experiment
    AND steps.run_id = first_odd.run_id AND steps.rank = first_odd.rank AND steps.start_s <= first_odd.at_s
GROUP BY ALL ORDER BY experiment, run_id, at_s, name
"""


@dataclass(frozen=True)
class NotFinite:
    """A metric of a run, or a loss in its output, that is NaN or infinite.

    `rank` is the first that has it, of so many `ranks`; `at_s` is in seconds since the job's start, and
    `step` the last that the rank had begun by then; None: it recorded none. Of what `is_printed`,
    `value` is the line.
    """

    name: str
    value: str
    rank: int
    ranks: int
    at_s: float | None
    step: int | None
    is_printed: bool


def not_finite(tables: StudyTables) -> Mapping[Run, list[NotFinite]]:
    """Return what is not finite by experiment and run_id, the first in time first."""
    found: defaultdict[Run, list[NotFinite]] = defaultdict(list)
    for row in tables.fetch(_QUERY, {"printed": PRINTED_LOSS}):
        found[row["experiment"], row["run_id"]].append(
            NotFinite(
                row["name"],
                row["value"],
                row["rank"],
                row["ranks"],
                row["at_s"],
                row["step"],
                row["name"] == PRINTED_LOSS,
            )
        )
    return found

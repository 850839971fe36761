"""How much of a run's steady time lies between its steps, and so in none of their seconds."""

from collections.abc import Mapping

from argosy.analysis.study_tables import StudyTables
from argosy.results.tables import Run

# Throughput is by the slowest rank's seconds, so what it misses is what that rank did between them. Steps
# of which any is not recorded would seem to lie far apart. Clocks tell no more than a millionth.
_QUERY = """
WITH of_rank AS (
    SELECT experiment, run_id, rank, seconds, is_whole,
        1 - timed_s / nullif(ended_s - began_s, 0) AS share
    FROM steady_rank
), of_run AS (
    SELECT experiment, run_id, arg_max({'is_whole': is_whole, 'share': share}, (seconds, -rank)) AS slowest
    FROM of_rank GROUP BY ALL
)
SELECT experiment, run_id, round(greatest(0, slowest.share), 6) AS share
FROM of_run JOIN runs USING (experiment, run_id)
WHERE state = 'completed' AND len(missing_ranks) = 0 AND slowest.is_whole AND slowest.share IS NOT NULL
ORDER BY experiment, run_id
"""


def between_steps(tables: StudyTables) -> Mapping[Run, float]:
    """Return the share of the steady time that is in no step, from 0 to 1, by experiment and run_id.

    The steady time lasts from the begin of the slowest rank's first steady step to the end of its last one,
    by the clock of its node, in the run's last job; validation and checkpoints are in it and in no step.
    Completed runs are in it of which all ranks recorded steps, and the slowest rank every one.
    """
    return {(row["experiment"], row["run_id"]): row["share"] for row in tables.fetch(_QUERY)}

"""How much of a run's time is in none of its steps' seconds: between them, and around them all."""

from collections.abc import Mapping
from dataclasses import dataclass

from argosy.report.runs.study_tables import StudyTables
from argosy.results.tables import Run

# Throughput is by the slowest rank's seconds, so what it misses is what that rank did between them. Steps
# of which any is not recorded would seem to lie far apart. Clocks tell no more than a millionth.
_QUERY = """
WITH of_rank AS (
    SELECT experiment, run_id, rank, seconds, is_whole,
        ended_s - began_s AS steady_s, 1 - timed_s / nullif(ended_s - began_s, 0) AS share
    FROM steady_rank
), of_run AS (
    SELECT experiment, run_id,
        arg_max(struct_pack(is_whole, steady_s, share), (of_rank.seconds, -rank)) AS slowest
    FROM of_rank GROUP BY experiment, run_id
)
SELECT experiment, run_id, round(greatest(0, slowest.share), 6) AS share,
    CASE WHEN len(continued_at) = 0 THEN greatest(0, runs.seconds - slowest.steady_s) END AS around_s
FROM of_run JOIN runs USING (experiment, run_id)
WHERE state = 'completed' AND len(missing_ranks) = 0 AND slowest.is_whole AND slowest.share IS NOT NULL
ORDER BY experiment, run_id
"""


@dataclass(frozen=True)
class OutsideSteps:
    """`between` is the share of the steady time that is in no step, from 0 to 1.

    `around_s` are the run's seconds before and after its steady time: start, warm-up and end; None of a run
    that several jobs have done.
    """

    between: float
    around_s: float | None


def between_steps(tables: StudyTables) -> Mapping[Run, OutsideSteps]:
    """Return the time that is in no step, by experiment and run_id.

    The steady time lasts from the begin of the slowest rank's first steady step to the end of its last one,
    by the clock of its node, in the run's last job; validation and checkpoints are in it and in no step.
    Completed runs are in it of which all ranks recorded steps, and the slowest rank every one.
    """
    return {
        (row["experiment"], row["run_id"]): OutsideSteps(row["share"], row["around_s"])
        for row in tables.fetch(_QUERY)
    }

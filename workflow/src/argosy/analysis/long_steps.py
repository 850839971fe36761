"""Steps that took many times the median: a suspended job or a stalled file system, not the program."""

from collections.abc import Mapping
from dataclasses import dataclass

from argosy.analysis.study_tables import StudyTables
from argosy.results.tables import Run

MUCH = 0.05
"""Of the slowest rank's steady time; long steps that take less change no number."""
FEW = 0.05
"""Of the steps; more long ones are the program's own."""

# Throughput is by the slowest rank's seconds (measurements.py), with long steps and without.
_QUERY = """
WITH slowest AS (
    SELECT * FROM steady_rank
    QUALIFY row_number() OVER (PARTITION BY experiment, run_id ORDER BY seconds DESC, rank) = 1
), without AS (
    SELECT experiment, run_id, sum(samples - long_samples) / max(seconds - long_s) AS rate
    FROM steady_rank GROUP BY ALL
)
SELECT experiment, run_id, rank, longest AS step, longest_s, usual_s, long_steps, rate
FROM slowest JOIN without USING (experiment, run_id) JOIN runs USING (experiment, run_id)
WHERE state = 'completed' AND len(missing_ranks) = 0
    AND long_s > $much * slowest.seconds AND long_steps <= greatest(1, $few * steps)
ORDER BY experiment, run_id
"""


@dataclass(frozen=True)
class LongSteps:
    """The long `steps` of a run's slowest `rank`, how many they are, and the longest of them.

    The longest is `step`; it took `seconds`, `times` the median. `samples_per_s` is the run's throughput
    without long steps.
    """

    rank: int
    steps: int
    step: int
    seconds: float
    times: float
    samples_per_s: float


def long_steps(tables: StudyTables) -> Mapping[Run, LongSteps]:
    """Return the long steps of runs, by experiment and run_id, where few of them took much of the time."""
    return {
        (row["experiment"], row["run_id"]): LongSteps(
            row["rank"],
            row["long_steps"],
            row["step"],
            row["longest_s"],
            row["longest_s"] / row["usual_s"],
            row["rate"],
        )
        for row in tables.fetch(_QUERY, {"much": MUCH, "few": FEW})
        if row["rate"]
    }

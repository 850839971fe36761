"""Doubts on completed runs: values that are not finite, steps that took very long."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from argosy.report.runs.study_tables import StudyTables
from argosy.results.rows import PRINTED_LOSS
from argosy.results.tables import Run

DIVERGED = 1e100
"""A metric beyond it is of a training that diverged, as good as infinite."""

_NOT_FINITE = f"""
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
    for row in tables.fetch(_NOT_FINITE, {"printed": PRINTED_LOSS}):
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


MUCH = 0.05
"""Of the slowest rank's steady time; long steps that take less change no number."""

FEW = 0.05
"""Of the steps; more long ones are the program's own."""

# Throughput is by the slowest rank's seconds (measurements.py), with long steps and without.
_LONG_STEPS = """
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
        for row in tables.fetch(_LONG_STEPS, {"much": MUCH, "few": FEW})
        if row["rate"]
    }

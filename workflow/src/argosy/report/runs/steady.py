"""The steady state of each run; all means exclude the steps before it.

A single pass over the steps sums each rank's steady state. Throughput, step times and factors are computed
from these sums.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
from numpy.typing import NDArray

from argosy.report.runs.warmup import WarmUp, joined, of_pieces
from argosy.results.tables import PHASES, Run, fetch, fill

OTHER = "other"
"""Time outside all phases."""

RANK_COLUMNS = (
    *("rank", "first", "steps", "last", "began_s", "ended_s", "timed_s", "is_whole"),
    *("samples", "seconds"),
    *(*PHASES, OTHER),
    *("longest", "longest_s", "usual_s", "long_steps", "long_s", "long_samples"),
)
"""Columns of `SteadyStates.rank_sums`, after experiment and run_id.

* `steps`, `samples`: Counts from the `first` step of the steady state to the `last`, without the warm-up of
  jobs that continue the run.
* `began_s`, `ended_s`: Start and end of the steady state in the last job, in seconds of that job;
  `timed_s` is the total of its steps, and `is_whole` that no step between them is missing.
* `seconds`, phases, `other`: Sums, in s; NULL for a phase that no step names. If a run only approaches its
  steady state, they are scaled to it (`WarmUp.excess`).
* `longest`, `longest_s`: The rank's longest step and its seconds; `usual_s` is the run's median step.
* `long_steps`, `long_s`, `long_samples`: Number and sums of the steps longer than LONG medians.
"""

LONG = 20
"""Medians above which a step is long."""

# Ranks wait for each other, so their mean is the duration of a step.
_SERIES = """
WITH of_step AS (
    SELECT experiment, run_id, step, greatest(avg(seconds), 1e-9) AS seconds
    FROM {steps} GROUP BY ALL
)
SELECT experiment, run_id, any_value(continued_at) AS continued_at,
    list(step ORDER BY step) AS steps, list(of_step.seconds ORDER BY step) AS seconds
FROM of_step JOIN runs USING (experiment, run_id)
WHERE coalesce(list_min(part_nodes), nodes) = nodes
GROUP BY experiment, run_id ORDER BY experiment, run_id
"""
# No join if all runs are requested: comparing names takes as long as reading the numbers.
_ALL = "steps"
_ASKED = "steps SEMI JOIN asked USING (experiment, run_id)"

_STEADY = """
CREATE TEMP TABLE steady (
    experiment VARCHAR, run_id VARCHAR, first BIGINT, last BIGINT, excess DOUBLE, usual_s DOUBLE,
    of_last_job BIGINT
)
"""
_COVERED = " + ".join(f"coalesce({phase}_s, 0)" for phase in PHASES)
# Not by time: the nodes' clocks may differ from the job's, or may be set meanwhile.
_IS_OF_LAST_JOB = "step >= of_last_job"
_IS_LONG = f"seconds > {LONG} * usual_s"
_RANK_SUMS = f"""
CREATE TEMP TABLE new_rank_sums AS
SELECT experiment, run_id, rank, min(first) AS first, count(*) AS steps, max(step) AS last,
    min(start_s) FILTER ({_IS_OF_LAST_JOB}) AS began_s,
    max(start_s + seconds) FILTER ({_IS_OF_LAST_JOB}) AS ended_s,
    sum(seconds) FILTER ({_IS_OF_LAST_JOB}) AS timed_s,
    count(*) FILTER ({_IS_OF_LAST_JOB})
        = max(step) - min(step) FILTER ({_IS_OF_LAST_JOB}) + 1 AS is_whole,
    sum(samples) AS samples, sum(seconds / excess) AS seconds,
    {", ".join(f"sum({phase}_s / excess) AS {phase}" for phase in PHASES)},
    sum(greatest(0, seconds - ({_COVERED})) / excess) AS {OTHER},
    arg_max(step, seconds) AS longest, max(seconds) AS longest_s, any_value(usual_s) AS usual_s,
    count(*) FILTER ({_IS_LONG}) AS long_steps,
    coalesce(sum(seconds / excess) FILTER ({_IS_LONG}), 0) AS long_s,
    coalesce(sum(samples) FILTER ({_IS_LONG}), 0) AS long_samples
FROM steps JOIN steady USING (experiment, run_id) WHERE step BETWEEN first AND steady.last
GROUP BY experiment, run_id, rank ORDER BY experiment, run_id, rank
"""


@dataclass(frozen=True)
class SteadyStates:
    """Warm-ups by run, and `rank_sums` with a row (RANK_COLUMNS) for each rank of each steady run."""

    warm_ups: Mapping[Run, WarmUp]
    rank_sums: duckdb.DuckDBPyRelation


def steady_states(tables: duckdb.DuckDBPyConnection, asked: Sequence[Run] | None) -> SteadyStates:
    """Find the steady state of each run with recorded steps; call it once per connection.

    Args:
        asked: The runs to examine; None for all.
    """
    if asked is not None:
        tables.execute("CREATE TEMP TABLE asked (experiment VARCHAR, run_id VARCHAR)")
        fill(tables, "asked", asked)
    found: dict[Run, WarmUp] = {}
    steady: list[tuple[object, ...]] = []
    for row in fetch(tables, _SERIES.format(steps=_ALL if asked is None else _ASKED)):
        run = row["experiment"], row["run_id"]
        steps, seconds = np.asarray(row["steps"]), np.asarray(row["seconds"])
        begins = np.unique(np.searchsorted(steps, sorted(row["continued_at"])))
        begins = begins[(begins > 0) & (begins < steps.size)]
        pieces = of_pieces(seconds, begins.tolist())
        found[run] = joined(pieces, steps[begins].tolist())
        steady += [(*run, *parts) for parts in _steady_parts(steps, seconds, pieces, begins)]
    tables.execute(_STEADY)
    fill(tables, "steady", steady)
    tables.execute(_RANK_SUMS)
    return SteadyStates(found, tables.table("new_rank_sums"))


def _steady_parts(
    steps: NDArray[np.int64],
    seconds: NDArray[np.float64],
    pieces: Sequence[WarmUp],
    begins: NDArray[np.intp],
) -> Iterator[tuple[int, int, float, float, int]]:
    """Yield first step, last step and excess of each steady part, and two numbers of the run.

    These are its median step in s, and the first step of its last job.
    """
    parts = [
        (place + piece.steps, place + length, piece.excess)
        for piece, place, length in zip(
            pieces, [0, *begins], np.diff([0, *begins, steps.size]), strict=True
        )
        if not piece.left_out
    ]
    if parts:
        usual_s = float(np.median(np.concatenate([seconds[first:end] for first, end, _ in parts])))
        last_job = int(steps[begins[-1] if begins.size else 0])
        for first, end, excess in parts:
            yield int(steps[first]), int(steps[end - 1]), excess, usual_s, last_job

"""The steady state of each run: what lies before is left out of every mean.

The steps of a large study are read once: every rank's sums over its steady state are what throughput, step
times and factors are made of.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np

from argosy.analysis.warmup import WarmUp, warm_up
from argosy.results.tables import PHASES, Run, fetch, fill

OTHER = "other"
"""What no phase covers."""

RANK_COLUMNS = (
    *("rank", "first", "steps", "last", "began_s", "ended_s", "timed_s", "samples", "seconds"),
    *(*PHASES, OTHER),
    *("longest", "longest_s", "usual_s", "long_steps", "long_s", "long_samples"),
)
"""Of `SteadyStates.rank_sums`, after experiment and run_id.

How many `steps` and `samples` a rank made from the `first` step of the steady state to the `last`; from
when to when, in seconds of the last job (`began_s`, `ended_s`); what its steps took together (`timed_s`);
and the sums of `seconds`, of each phase (NULL where no step names it) and of what no phase covers. Where a
run only approached its steady state, these sums are what they would be in it (`WarmUp.excess`).

`longest` is the rank's longest step and `longest_s` its seconds; `usual_s` is the run's median, in seconds.
Of steps that took more than `LONG` times as long there are `long_steps`, with `long_s` and `long_samples`
among the sums.
"""

LONG = 20
"""Times the median."""

# Ranks wait for each other, so their mean says how long a step took.
_SERIES = """
WITH of_step AS (
    SELECT experiment, run_id, step, greatest(avg(seconds), 1e-9) AS seconds
    FROM {steps} GROUP BY ALL
)
SELECT experiment, run_id, list(step ORDER BY step) AS steps, list(seconds ORDER BY step) AS seconds
FROM of_step GROUP BY ALL ORDER BY experiment, run_id
"""
# Where all runs are asked for, their names are not compared: that takes as long as to read the numbers.
_ALL = "steps"
_ASKED = "steps SEMI JOIN asked USING (experiment, run_id)"

_STEADY = """
CREATE TEMP TABLE steady (experiment VARCHAR, run_id VARCHAR, first BIGINT, excess DOUBLE, usual_s DOUBLE)
"""
_COVERED = " + ".join(f"coalesce({phase}_s, 0)" for phase in PHASES)
_IS_LONG = f"seconds > {LONG} * usual_s"
_RANK_SUMS = f"""
CREATE TEMP TABLE new_rank_sums AS
SELECT experiment, run_id, rank, first, count(*) AS steps, max(step) AS last,
    min(start_s) FILTER (start_s >= 0) AS began_s, max(start_s + seconds) AS ended_s,
    sum(seconds) FILTER (start_s >= 0) AS timed_s,
    sum(samples) AS samples, sum(seconds) / any_value(excess) AS seconds,
    {", ".join(f"sum({phase}_s) / any_value(excess) AS {phase}" for phase in PHASES)},
    sum(greatest(0, seconds - ({_COVERED}))) / any_value(excess) AS {OTHER},
    arg_max(step, seconds) AS longest, max(seconds) AS longest_s, usual_s,
    count(*) FILTER ({_IS_LONG}) AS long_steps,
    coalesce(sum(seconds) FILTER ({_IS_LONG}), 0) / any_value(excess) AS long_s,
    coalesce(sum(samples) FILTER ({_IS_LONG}), 0) AS long_samples
FROM steps JOIN steady USING (experiment, run_id) WHERE step >= first GROUP BY ALL
ORDER BY experiment, run_id, rank
"""


@dataclass(frozen=True)
class SteadyStates:
    """The steady states of runs, by experiment and run_id.

    `rank_sums` has a row for each rank of each run that became steady, with the columns RANK_COLUMNS.
    """

    warm_ups: Mapping[Run, WarmUp]
    rank_sums: duckdb.DuckDBPyRelation


def steady_states(tables: duckdb.DuckDBPyConnection, asked: Sequence[Run] | None) -> SteadyStates:
    """Find the steady state of each run that recorded steps; once for a connection.

    Args:
        asked: the runs to look at; None: all.
    """
    if asked is not None:
        tables.execute("CREATE TEMP TABLE asked (experiment VARCHAR, run_id VARCHAR)")
        fill(tables, "asked", asked)
    found, steady = {}, []
    for row in fetch(tables, _SERIES.format(steps=_ALL if asked is None else _ASKED)):
        run = row["experiment"], row["run_id"]
        found[run] = one = warm_up(row["seconds"])
        if not one.left_out:
            usual_s = float(np.median(row["seconds"][one.steps :]))
            steady.append((*run, row["steps"][one.steps], one.excess, usual_s))
    tables.execute(_STEADY)
    fill(tables, "steady", steady)
    tables.execute(_RANK_SUMS)
    return SteadyStates(found, tables.table("new_rank_sums"))

"""Stragglers of each run, from the tables."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from argosy.analysis.stragglers import Straggler, stragglers
from argosy.results.tables import asked_of, rows_of

MOST_VALUES = 1_000_000
"""Steps times ranks that are looked at in a run; of longer runs, steps at equal distances."""

_RUNS = """
SELECT experiment, run_id, ranks, ranks_per_node, first, max(last - first) + 1 AS steps
FROM runs JOIN given USING (experiment, run_id)
WHERE state = 'completed' AND ranks > 1 AND len(missing_ranks) = 0
GROUP BY ALL ORDER BY experiment, run_id
"""

_OWN_WORK = """
SELECT place, step, greatest(seconds - coalesce(communication_s, 0), 1e-9) AS own_work_s
FROM steps JOIN looked_at USING (experiment, run_id)
WHERE step >= first AND (step - first) % stride = 0
ORDER BY place, step, rank
"""

Run = Mapping[str, Any]
Whole = NDArray[np.integer[Any]]


def slow_ranks(
    tables: duckdb.DuckDBPyConnection, rank_sums: duckdb.DuckDBPyRelation
) -> dict[tuple[str, str], list[Straggler]]:
    """Return the stragglers of each completed run that has any, by experiment and run_id.

    Args:
        rank_sums: what each rank did in its steady state, see `SteadyStates`.
    """
    found = {}
    for batch in _batches(rows_of(asked_of(rank_sums, _RUNS))):
        for run, named in zip(batch, _of_batch(tables, batch), strict=True):
            if named:
                found[run["experiment"], run["run_id"]] = named
    return found


def _batches(runs: Sequence[Run]) -> Iterator[list[Run]]:
    """Yield runs that are small enough to be read together; a query for each would take long."""
    batch: list[Run] = []
    values = 0
    for run in runs:
        more = min(MOST_VALUES, run["steps"] * run["ranks"])
        if batch and values + more > MOST_VALUES:
            yield batch
            batch, values = [], 0
        batch.append(run)
        values += more
    if batch:
        yield batch


def _of_batch(tables: duckdb.DuckDBPyConnection, batch: Sequence[Run]) -> list[list[Straggler]]:
    tables.execute(
        "CREATE OR REPLACE TEMP TABLE looked_at AS SELECT unnest($1) AS experiment, "
        "unnest($2) AS run_id, unnest($3) AS first, unnest($4) AS ranks, unnest($5) AS stride, "
        "unnest(range(len($1))) AS place",
        [
            *([run[key] for run in batch] for key in ("experiment", "run_id", "first", "ranks")),
            [max(1, run["steps"] * run["ranks"] // MOST_VALUES) for run in batch],
        ],
    )
    found = tables.execute(_OWN_WORK).fetchnumpy()
    place, step = np.asarray(found["place"]), np.asarray(found["step"])
    ranks = np.array([run["ranks"] for run in batch])
    kept = _of_all_ranks(place, step, ranks)
    ends = np.searchsorted(place[kept], range(len(batch)), side="right")
    own_work_s = np.split(np.asarray(found["own_work_s"], np.float64)[kept], ends[:-1])
    return [
        stragglers(values.reshape(-1, run["ranks"]), _nodes(run))
        for run, values in zip(batch, own_work_s, strict=True)
    ]


def _of_all_ranks(place: Whole, step: Whole, ranks: Whole) -> NDArray[np.bool_]:
    """Return which rows, sorted by place and step, are of a step of all ranks; `ranks` is by place."""
    first = np.flatnonzero(np.diff(place, prepend=-1) | np.diff(step, prepend=-1))
    counts = np.diff(first, append=place.size)
    return np.repeat(counts == ranks[place[first]], counts)


def _nodes(run: Run) -> list[int]:
    return [rank // run["ranks_per_node"] for rank in range(run["ranks"])]

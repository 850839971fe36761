"""Ranks and nodes of a run that are slower than the others, from its steps.

In synchronous training the slowest rank sets the pace, and all others show its delay as
communication. So ranks are compared in what they do by themselves: all phases but communication.
Where communication hides in the backward phase, that phase is as long on every rank, and a
straggler is seen only in the phases outside it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from argosy.report.statistics.estimates import CONFIDENCE, Estimate
from argosy.results.tables import asked_of, rows_of

MARGIN = 1.03
"""A step is a slow one of a rank when its own work takes this many times that of the median rank."""
EXCESS_SHARE = 0.2
"""A straggler has slow steps in this much more of its steps than the median rank has."""
LEAST_LOSS = 1.02
"""A straggler takes longer by this much, over all steps."""
SIGNIFICANCE = 0.01
"""The chance that any of all ranks is named though all are alike."""
FEWEST_STEPS = 20
"""Fewer do not tell how alike neighbouring steps are."""

_BATCHES = 10
_MOST_GROWTH = 4.0
_MOST_ALIKE = 0.99

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Straggler:
    """A rank that is slow, or a node whose ranks all are; `rank` is None for a node.

    `ratio` is own work over that of the good ranks, over all steps, as geometric means, and `share` the
    part of all steps that are slow. Of a node, both are those of its ranks in the mean.
    """

    rank: int | None
    node: int
    ratio: Estimate
    share: float


def stragglers(own_work_s: Matrix, nodes: Sequence[int]) -> list[Straggler]:
    """Return the slow nodes and then the other slow ranks, each list by number.

    `own_work_s` has the shape (steps, ranks), in seconds; `nodes` has each rank's node. A rank is named
    when its own work takes LEAST_LOSS times as long as that of the step's median rank, in the geometric
    mean over all steps; when that is beyond chance, at SIGNIFICANCE over the number of ranks
    (Bonferroni), with the long-run variance that the median rank has, since neighbouring steps are
    alike; and when the share of its steps that are slower than MARGIN times the median rank exceeds the
    median rank's share by EXCESS_SHARE, which a few very slow steps do not. A node with several ranks
    is named when all of them are.

    The median rank is the yardstick, so fewer than half of the ranks can be found. Of two ranks it
    is their mean, so one has to be slower by twice as much. Raises ValueError for a wrong shape or a
    time that is not positive.
    """
    work = _checked(own_work_s, len(nodes))
    steps, ranks = work.shape
    if steps < FEWEST_STEPS or ranks < 2:
        return []
    logs = np.log(work)
    above = logs - np.median(logs, axis=1, keepdims=True)
    slow = above > log(MARGIN)
    lost = above.mean(axis=0)
    error = sqrt(_long_run_variance(above) / steps)
    beyond_chance = -float(ndtri(SIGNIFICANCE / ranks)) * error
    share = slow.mean(axis=0)
    is_named = (
        (lost >= log(LEAST_LOSS))
        & (lost - np.median(lost) > beyond_chance)
        & (share - np.median(share) >= EXCESS_SHARE)
    )
    if not is_named.any():
        return []
    named = set(np.flatnonzero(is_named).tolist())
    # Slow ranks shift the median, though little.
    above_good = logs - np.delete(logs, [*named], axis=1).mean(axis=1, keepdims=True)
    whole = _whole_nodes(named, nodes)
    found = [
        *((None, node, of_node) for node, of_node in sorted(whole.items())),
        *((rank, nodes[rank], [rank]) for rank in sorted(named) if nodes[rank] not in whole),
    ]
    return [
        Straggler(
            rank,
            node,
            _ratio(above_good[:, members].mean(axis=1), error**2),
            float(share[members].mean()),
        )
        for rank, node, members in found
    ]


def _checked(own_work_s: Matrix, ranks: int) -> Matrix:
    work = np.asarray(own_work_s, dtype=np.float64)
    if work.ndim != 2 or work.shape[1] != ranks:
        raise ValueError(f"own work of shape {work.shape} does not fit {ranks} ranks")
    if work.size and not work.min() > 0:
        raise ValueError("own work takes more than 0 s in every step of every rank")
    return work


def _long_run_variance(above: Matrix) -> float:
    """Return the variance of a rank's mean times its number of steps, of the median rank.

    It is the larger one of two: that of means of batches, so that work which differs from epoch to epoch
    counts, and that of a first-order autoregression, whose coefficient is corrected for its bias in short
    series (Kendall, Biometrika 41, 1954). Many ranks together tell it well; the median of them is no
    straggler's.
    """
    steps = above.shape[0]
    apart = above - above.mean(axis=0)
    variances = (apart * apart).mean(axis=0)
    variance = float(np.median(variances))
    if not variance > 0:
        return 0.0
    products = (apart[1:] * apart[:-1]).mean(axis=0)
    alike = float(np.median(products[variances > 0] / variances[variances > 0]))
    alike = min(max((alike * steps + 1) / (steps - 3), 0.0), _MOST_ALIKE)
    growth = (1 + alike) / (1 - alike)
    # The mean that was taken away took its own variance along.
    of_neighbours = variance * growth / max(1 - growth / steps, 0.1)
    return float(max(of_neighbours, _of_batches(apart)))


def _of_batches(apart: Matrix) -> float:
    """Return the same by means of batches of several lengths (Conway, Management Science 10(1), 1963).

    Where it still grows with the length, even long batches are alike, and it would grow further.
    """
    found = {number: _of_batch_means(apart, number) for number in (2, 3, 4, 5, 6, 8, 10)}
    long, short = found[2] + found[3], found[8] + found[10]
    grows = min(max(long / short, 1.0), _MOST_GROWTH) if short > 0 else 1.0
    return max(found.values()) * grows


def _of_batch_means(apart: Matrix, batches: int) -> float:
    length = apart.shape[0] // batches
    last = apart[apart.shape[0] - length * batches :]
    variances = last.reshape(batches, length, -1).mean(axis=1).var(axis=0, ddof=1)
    # Of chi-squared variables the median lies below the mean (Wilson and Hilferty, PNAS 17, 1931).
    median_of_mean = (1 - 2 / (9 * (batches - 1))) ** 3
    return float(length * np.median(variances) / median_of_mean)


def _whole_nodes(named: set[int], nodes: Sequence[int]) -> dict[int, list[int]]:
    """Return the ranks of those nodes that have several ranks and all of them slow."""
    ranks_of: dict[int, list[int]] = {}
    for rank, node in enumerate(nodes):
        ranks_of.setdefault(node, []).append(rank)
    return {
        node: ranks
        for node, ranks in ranks_of.items()
        if len(ranks) > 1 and named.issuperset(ranks)
    }


def _ratio(above: NDArray[np.float64], variance: float) -> Estimate:
    """Return the ratio over all steps; `variance` is that of a mean of the other ranks' steps.

    Its own may be larger, as where a rank becomes slow half way; `n` counts the batches that tell it.
    """
    batches = np.array_split(above, _BATCHES)
    own = float(np.var([batch.mean() for batch in batches], ddof=1)) / _BATCHES
    mean = float(above.mean())
    half = float(stdtrit(_BATCHES - 1, (1 + CONFIDENCE) / 2)) * sqrt(max(own, variance))
    return Estimate(_BATCHES, exp(mean), exp(mean - half), exp(mean + half))


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

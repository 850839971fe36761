"""Slow ranks and nodes of a run, found from its steps.

In synchronous training the slowest rank sets the pace, and the others record its delay as communication. So
ranks are compared by their own work: all phases except communication. If communication is part of the
backward phase, this phase is equally long on all ranks, and only the other phases reveal a straggler.
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
"""A step is slow on a rank if its own work takes this many times as long as the median rank's."""
EXCESS_SHARE = 0.2
"""A straggler's share of slow steps exceeds the median rank's by at least this."""
LEAST_LOSS = 1.02
"""A straggler's own work takes at least this many times as long, over all steps."""
SIGNIFICANCE = 0.01
"""Probability of naming any rank although all are alike."""
FEWEST_STEPS = 20
"""Fewest steps from which the correlation of neighbouring steps can be estimated."""

_BATCHES = 10
_MOST_GROWTH = 4.0
_MOST_ALIKE = 0.99

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Straggler:
    """A slow rank, or a node with only slow ranks.

    Args:
        rank: None for a node.
        ratio: Own work relative to the good ranks, as geometric means over all steps.
        share: Share of slow steps. Both are means over the ranks of a node.
    """

    rank: int | None
    node: int
    ratio: Estimate
    share: float


def stragglers(own_work_s: Matrix, nodes: Sequence[int]) -> list[Straggler]:
    """Return the slow nodes, then the other slow ranks, each ordered by number.

    A rank is slow if, compared with the median rank of each step,

    * its own work takes LEAST_LOSS times as long, in the geometric mean over all steps;
    * this is significant at SIGNIFICANCE divided by the number of ranks (Bonferroni), with the median
      rank's long-run variance, since neighbouring steps are correlated;
    * its share of steps slower than MARGIN times the median exceeds the median rank's share by
      EXCESS_SHARE, so a few very slow steps are not enough.

    A node is slow if it has several ranks and all are slow. The median rank is the reference, so fewer than
    half of the ranks can be found. The median of two ranks is their mean, which halves their excess.

    Args:
        own_work_s: Seconds of shape (steps, ranks).
        nodes: The node of each rank.

    Raises:
        ValueError: The shape is wrong, or a time is not positive.
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
    # Slow ranks shift the median slightly.
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
    """Return the median rank's variance of the mean, times the number of steps.

    It is the larger of two estimates: from batch means, which include variation between epochs, and from a
    first-order autoregression, whose coefficient is corrected for its bias in short series (Kendall,
    Biometrika 41, 1954). The median over ranks is robust against stragglers.
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
    # Subtracting the mean removed its own variance.
    of_neighbours = variance * growth / max(1 - growth / steps, 0.1)
    return float(max(of_neighbours, _of_batches(apart)))


def _of_batches(apart: Matrix) -> float:
    """Estimate the long-run variance from batch means (Conway, Management Science 10(1), 1963).

    If the estimate grows with the batch length, even long batches are correlated, so it is extrapolated.
    """
    found = {number: _of_batch_means(apart, number) for number in (2, 3, 4, 5, 6, 8, 10)}
    long, short = found[2] + found[3], found[8] + found[10]
    grows = min(max(long / short, 1.0), _MOST_GROWTH) if short > 0 else 1.0
    return max(found.values()) * grows


def _of_batch_means(apart: Matrix, batches: int) -> float:
    length = apart.shape[0] // batches
    last = apart[apart.shape[0] - length * batches :]
    variances = last.reshape(batches, length, -1).mean(axis=1).var(axis=0, ddof=1)
    # The median of chi-squared variables is below their mean (Wilson and Hilferty, PNAS 17, 1931).
    median_of_mean = (1 - 2 / (9 * (batches - 1))) ** 3
    return float(length * np.median(variances) / median_of_mean)


def _whole_nodes(named: set[int], nodes: Sequence[int]) -> dict[int, list[int]]:
    """Return the ranks of nodes with several ranks, all of which are slow."""
    ranks_of: dict[int, list[int]] = {}
    for rank, node in enumerate(nodes):
        ranks_of.setdefault(node, []).append(rank)
    return {
        node: ranks
        for node, ranks in ranks_of.items()
        if len(ranks) > 1 and named.issuperset(ranks)
    }


def _ratio(above: NDArray[np.float64], variance: float) -> Estimate:
    """Return the ratio over all steps; `n` counts batches.

    The variance is the larger of the other ranks' `variance` of a mean and its own, which is large if a
    rank becomes slow half way.
    """
    batches = np.array_split(above, _BATCHES)
    own = float(np.var([batch.mean() for batch in batches], ddof=1)) / _BATCHES
    mean = float(above.mean())
    half = float(stdtrit(_BATCHES - 1, (1 + CONFIDENCE) / 2)) * sqrt(max(own, variance))
    return Estimate(_BATCHES, exp(mean), exp(mean - half), exp(mean + half))


MOST_VALUES = 1_000_000
"""Maximum number of steps times ranks examined per run; longer runs are sampled at equal distances."""

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
    """Return the stragglers of each completed run that has any; for `rank_sums` see `SteadyStates`."""
    found = {}
    for batch in _batches(rows_of(asked_of(rank_sums, _RUNS))):
        for run, named in zip(batch, _of_batch(tables, batch), strict=True):
            if named:
                found[run["experiment"], run["run_id"]] = named
    return found


def _batches(runs: Sequence[Run]) -> Iterator[list[Run]]:
    """Group runs for common queries, with up to MOST_VALUES values each."""
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
    """Mark the rows of steps that all ranks recorded; rows are sorted by place and step."""
    first = np.flatnonzero(np.diff(place, prepend=-1) | np.diff(step, prepend=-1))
    counts = np.diff(first, append=place.size)
    return np.repeat(counts == ranks[place[first]], counts)


def _nodes(run: Run) -> list[int]:
    return [rank // run["ranks_per_node"] for rank in range(run["ranks"])]

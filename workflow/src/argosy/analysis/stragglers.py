"""Ranks and nodes that are slow in their own work.

In synchronous training the slowest rank sets the pace, and all others show its delay as
communication. So ranks are compared in what they do by themselves: all phases but communication.
Where communication hides in the backward phase, that phase is as long on every rank, and a
straggler is seen only in the phases outside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc

from argosy.analysis.statistics import Estimate, mean_estimate

# A step is a slow one of a rank when its own work takes this many times that of the median rank.
MARGIN = 1.03
# A straggler has slow steps in this much more of its steps than the median rank has.
EXCESS_SHARE = 0.2
# The chance that any of all ranks is named though all are alike.
SIGNIFICANCE = 0.01
_BATCHES = 20


@dataclass(frozen=True)
class Straggler:
    """A rank that is slow, or a node whose ranks all are; `rank` is None for a node.

    `ratio` is own work over that of the median of the good ranks, in the slow steps only, and
    `share` the part of all steps that are slow. Of a node, both are those of its ranks in the mean.
    """

    rank: int | None
    node: int
    ratio: Estimate
    share: float


def stragglers(own_work_s: NDArray[np.float64], nodes: Sequence[int]) -> list[Straggler]:
    """The slow nodes and then the other slow ranks, each list by number.

    `own_work_s` has the shape (steps, ranks), in seconds; `nodes` has each rank's node. A rank is
    named when the share of its steps that are slower than MARGIN times the step's median rank
    exceeds the median rank's share by EXCESS_SHARE, and by more than chance: a binomial test, with the
    median rank's share as the chance of a slow step, at SIGNIFICANCE over the number of ranks
    (Bonferroni). The steps of a rank are not independent, so the test alone would name too many in
    long runs; the excess keeps it sober. A node with several ranks is named when all of them are.

    The median rank is the yardstick, so fewer than half of the ranks can be found. Of two ranks it
    is their mean, so one has to be slower by twice as much. Raises ValueError for a wrong shape or a
    time that is not positive.
    """
    work = _checked(own_work_s, len(nodes))
    if work.size == 0:
        return []
    slow = work > MARGIN * np.median(work, axis=1, keepdims=True)
    named = set(np.flatnonzero(_is_named(slow.sum(axis=0), len(work))).tolist())
    if not named:
        return []
    # Slow ranks shift the median, though little.
    good_s = np.median(np.delete(work, list(named), axis=1), axis=1)
    whole = _whole_nodes(named, nodes)
    return [
        *(_node(node, ranks, work, good_s, slow) for node, ranks in sorted(whole.items())),
        *(
            _rank(rank, nodes[rank], work, good_s, slow)
            for rank in sorted(named)
            if nodes[rank] not in whole
        ),
    ]


def _checked(own_work_s: NDArray[np.float64], ranks: int) -> NDArray[np.float64]:
    work = np.asarray(own_work_s, dtype=np.float64)
    if work.ndim != 2 or work.shape[1] != ranks:
        raise ValueError(f"own work of shape {work.shape} does not fit {ranks} ranks")
    if work.size and not work.min() > 0:
        raise ValueError("own work takes more than 0 s in every step of every rank")
    return work


def _is_named(slow_steps: NDArray[np.int64], steps: int) -> NDArray[np.bool_]:
    typical = float(np.median(slow_steps))
    # Half a step more, for a median rank without any slow step is no proof that there are none.
    chance = (typical + 0.5) / (steps + 1)
    by_chance = bdtrc(slow_steps - 1, steps, chance)
    exceeds = slow_steps - typical >= EXCESS_SHARE * steps
    return np.asarray(exceeds & (by_chance < SIGNIFICANCE / slow_steps.size), dtype=np.bool_)


def _whole_nodes(named: set[int], nodes: Sequence[int]) -> dict[int, list[int]]:
    """The ranks of those nodes that have several ranks and all of them slow."""
    ranks_of: dict[int, list[int]] = {}
    for rank, node in enumerate(nodes):
        ranks_of.setdefault(node, []).append(rank)
    return {
        node: ranks
        for node, ranks in ranks_of.items()
        if len(ranks) > 1 and named.issuperset(ranks)
    }


def _rank(
    rank: int,
    node: int,
    work: NDArray[np.float64],
    good_s: NDArray[np.float64],
    slow: NDArray[np.bool_],
) -> Straggler:
    steps = slow[:, rank]
    ratio = _ratio(work[steps, rank] / good_s[steps])
    return Straggler(rank, node, ratio, float(steps.mean()))


def _node(
    node: int,
    ranks: list[int],
    work: NDArray[np.float64],
    good_s: NDArray[np.float64],
    slow: NDArray[np.bool_],
) -> Straggler:
    steps = slow[:, ranks].any(axis=1)
    ratio = _ratio(work[:, ranks].mean(axis=1)[steps] / good_s[steps])
    return Straggler(None, node, ratio, float(slow[:, ranks].mean()))


def _ratio(of_steps: NDArray[np.float64]) -> Estimate:
    """The mean ratio by the method of batch means: neighbouring steps are not independent.

    A batch of consecutive steps gives one value, its median, and `n` counts batches (Conway,
    Management Science 10(1), 1963).
    """
    batches = np.array_split(of_steps, min(_BATCHES, of_steps.size))
    return mean_estimate([float(np.median(batch)) for batch in batches])

"""What the algorithms of an allreduce send: their rounds, and their bytes for each byte of data.

An allreduce of n bytes takes rounds · alpha + share · n · beta, where alpha is the latency of a
message in seconds and beta the seconds of a byte (Thakur, Rabenseifner and Gropp, "Optimization of
Collective Communication Operations in MPICH", IJHPCA 19(1), 2005, sec. 3 and 4; Chan, Heimlich,
Purkayastha and van de Geijn, "Collective communication: theory, practice, and experience", CCPE 19,
2007). Over p participants:

    ring        2 (p - 1) rounds      2 (p - 1) / p bytes for each
    halving     2 log p               2 (p - 1) / p      Rabenseifner: recursive halving, doubling
    doubling    log p                 log p              recursive doubling
    tree        2 log p               2 log p            binomial: reduce, then broadcast

Halving and doubling want a power of two: other ranks give their data to a neighbour first and get
the result last, two messages of n bytes. The time to add numbers up is part of beta.

Ranks of a node share its link to other nodes, and beta between nodes is that of a whole node.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Traffic:
    """Messages one after another, and bytes sent one after another for each byte of data."""

    rounds: float
    share: float


@dataclass(frozen=True)
class Traffics:
    """What an allreduce sends within the nodes, and between them."""

    within_node: Traffic
    between_nodes: Traffic


Algorithm = Callable[[int, int], Traffics]

_NOTHING = Traffic(0.0, 0.0)


def _ring(participants: int) -> Traffic:
    return Traffic(2 * (participants - 1), 2 * (participants - 1) / participants)


def _halving(participants: int) -> Traffic:
    rounds, extra = _doublings(participants)
    return Traffic(2 * rounds + extra, 2 * (1 - 2.0**-rounds) + extra)


def _doubling(participants: int) -> Traffic:
    rounds, extra = _doublings(participants)
    return Traffic(rounds + extra, rounds + extra)


def _tree(participants: int) -> Traffic:
    depth = (participants - 1).bit_length()
    return Traffic(2 * depth, 2 * depth)


def _doublings(participants: int) -> tuple[int, int]:
    rounds = math.frexp(participants)[1] - 1
    return rounds, 0 if participants == 1 << rounds else 2


def ring(nodes: int, ranks_per_node: int) -> Traffics:
    """Return one ring over all ranks, node by node: in each round one message leaves each node."""
    around = _ring(nodes * ranks_per_node)
    return Traffics(around, _NOTHING) if nodes == 1 else Traffics(_NOTHING, around)


def hierarchical(nodes: int, ranks_per_node: int) -> Traffics:
    """Reduce-scatter within nodes, allreduce between nodes, allgather within nodes; all as rings."""
    return Traffics(_ring(ranks_per_node), _ring(nodes))


def halving(nodes: int, ranks_per_node: int) -> Traffics:
    """Recursive halving, neighbours first, so that each rank sends its share of a node's data."""
    return Traffics(_halving(ranks_per_node), _halving(nodes))


def doubling(nodes: int, ranks_per_node: int) -> Traffics:
    """Recursive doubling: all ranks of a node send all of the data at once."""
    between = _doubling(nodes)
    return Traffics(
        _doubling(ranks_per_node), Traffic(between.rounds, between.share * ranks_per_node)
    )


def tree(nodes: int, ranks_per_node: int) -> Traffics:
    """Return a binomial tree of nodes, and one in each node."""
    return Traffics(_tree(ranks_per_node), _tree(nodes))


# With one rank a node `hierarchical` is `ring`, and with powers of two `tree` cannot be told from
# `doubling`: of equals the first is chosen.
ALGORITHMS: Mapping[str, Algorithm] = {
    "ring": ring,
    "hierarchical": hierarchical,
    "halving": halving,
    "doubling": doubling,
    "tree": tree,
}

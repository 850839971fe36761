"""Networks of a machine, the algorithms of an allreduce, and how long one takes.

An allreduce of n bytes takes rounds · alpha + share · n · beta, where alpha is the latency of a
message in seconds and beta the seconds of a byte (Thakur, Rabenseifner and Gropp, "Optimization of
Collective Communication Operations in MPICH", IJHPCA 19(1), 2005, sec. 3 and 4; Chan, Heimlich,
Purkayastha and van de Geijn, "Collective communication: theory, practice, and experience", CCPE 19,
2007). Over p participants:

    ring        2 (p - 1) rounds      2 (p - 1) / p bytes for each
    halving     2 log p               2 (p - 1) / p      Rabenseifner: recursive halving, doubling

Halving wants a power of two: other ranks give their data to a neighbour first and get
the result last, two messages of n bytes. The time to add numbers up is part of beta.

Ranks of a node share its link to other nodes, and beta between nodes is that of a whole node.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtri, stdtrit

from argosy.report.statistics.estimates import CONFIDENCE
from argosy.report.statistics.least_squares import Matrix, Vector
from argosy.report.topics.laws import Interval


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
    rounds = math.frexp(participants)[1] - 1
    extra = 0 if participants == 1 << rounds else 2
    return Traffic(2 * rounds + extra, 2 * (1 - 2.0**-rounds) + extra)


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


# With one rank a node `hierarchical` is `ring`: of equals the first is chosen.
ALGORITHMS: Mapping[str, Algorithm] = {
    "ring": ring,
    "hierarchical": hierarchical,
    "halving": halving,
}


@dataclass(frozen=True)
class Lines:
    """Times of allreduces as lines over their bytes, one for each of many steps.

    A cycle's negotiation takes `negotiation_share` of the latency.
    """

    latency_s: Vector
    s_per_byte: Vector
    negotiation_share: ClassVar[float] = 0.5


@dataclass(frozen=True)
class Level:
    """A network's latency of a message, alpha, and its time for a byte, beta."""

    latency_s: Interval
    s_per_byte: Interval

    @property
    def bandwidth_bytes_per_s(self) -> Interval:
        """1 / beta, infinite where beta is 0."""
        time = self.s_per_byte
        return Interval(_inverse(time.value), _inverse(time.high), _inverse(time.low))


@dataclass(frozen=True)
class Communication:
    """The algorithm with the least AICc and its networks; one that was not measured is None.

    `jobs` is of how many jobs the times of each network are at least, None where each is one of its own;
    a network of fewer than three has no intervals, and `covariance` does not know how it differs from job
    to job. `most_nodes` is the largest number of nodes over which allreduces were timed. `aicc` is by
    algorithm. `coefficients` are alpha and beta within a node, then between nodes, with their
    `covariance`; both are 0 for what was not measured.
    """

    algorithm: str
    within_node: Level | None
    between_nodes: Level | None
    measurements: int
    jobs: int | None
    most_nodes: int
    residual_sd: float
    aicc: Mapping[str, float]
    coefficients: Vector
    covariance: Matrix

    def lines(self, nodes: Sequence[int], ranks_per_node: int, rows: Matrix) -> Lines:
        """Allreduces over all ranks of each of so many `nodes`, by the row of coefficients at its place.

        `rows` have the shape (steps, 4). Horovod negotiates by an allreduce of a few bytes, which takes
        half of the latency: Gloo sends when the receiver has said that it waits, so each message takes
        two ways; of a few bytes one segment alone goes around, and all but the first receiver have said
        so before it comes.

        Raises ValueError for networks that were not measured.
        """
        sizes, places = np.unique(np.array(nodes), return_inverse=True)
        for size in sizes.tolist():
            if not self.knows(size, ranks_per_node):
                raise ValueError(f"no allreduce tells of {size} x {ranks_per_node} ranks' networks")
        algorithm = ALGORITHMS[self.algorithm]
        sent = np.array([columns(algorithm, size, ranks_per_node) for size in sizes.tolist()])
        terms = rows * sent[places]
        return Lines(terms[:, 0::2].sum(axis=1), terms[:, 1::2].sum(axis=1))

    def drawn(self, chances: Matrix) -> Matrix:
        """Coefficients as uncertain as the fit's, by its joint normal, at chances of shape (count, 4).

        The normal is widened to Student's intervals.
        """
        values, vectors = np.linalg.eigh(_correlation(self.covariance))
        root = vectors * np.sqrt(np.clip(values, 0, None))
        errors = ndtri(chances) @ root.T * np.sqrt(np.diag(self.covariance))
        wider = students(self.freedom) / ndtri((1 + CONFIDENCE) / 2)
        rows: Matrix = self.coefficients + wider * errors
        return np.maximum(rows, 0.0)

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the fit's residuals."""
        return self.measurements - int(np.count_nonzero(np.diag(self.covariance)))

    def knows(self, nodes: int, ranks_per_node: int) -> bool:
        """Return whether the networks that so many ranks use were measured."""
        unknown = [self.within_node is None] * 2 + [self.between_nodes is None] * 2
        used = columns(ALGORITHMS[self.algorithm], nodes, ranks_per_node) > 0
        return not bool((used & np.array(unknown)).any())


def columns(algorithm: Algorithm, nodes: int, ranks_per_node: int) -> Vector:
    """Return what an allreduce of one byte has of the four coefficients, shape (4,)."""
    sent = algorithm(nodes, ranks_per_node)
    within, between = sent.within_node, sent.between_nodes
    return np.array([within.rounds, within.share, between.rounds, between.share])


def students(freedom: int) -> float:
    """Return half the width of a 95 % interval in standard errors."""
    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))


def _correlation(covariance: Matrix) -> Matrix:
    """Latencies and seconds of a byte differ by powers of ten, so the covariance is no base."""
    deviations = np.sqrt(np.diag(covariance))
    units: Vector = np.where(deviations > 0, deviations, 1.0)
    correlation: Matrix = covariance / np.outer(units, units)
    return correlation


def _inverse(value: float) -> float:
    return 1 / value if value else math.inf

"""Networks of a machine, algorithms of an allreduce, and its time.

An allreduce of n bytes takes rounds · alpha + share · n · beta, where alpha is the latency of a
message in seconds and beta the seconds per byte (Thakur, Rabenseifner and Gropp, "Optimization of
Collective Communication Operations in MPICH", IJHPCA 19(1), 2005, sec. 3 and 4; Chan, Heimlich,
Purkayastha and van de Geijn, "Collective communication: theory, practice, and experience", CCPE 19,
2007). Over p participants:

    ring        2 (p - 1) rounds      2 (p - 1) / p bytes for each
    halving     2 log p               2 (p - 1) / p      Rabenseifner: recursive halving, doubling

Halving needs a power of two: other ranks first send their data to a neighbour, and receive the result
last, two messages of n bytes. The time to add numbers is part of beta.

Ranks of a node share its link to other nodes, so beta between nodes is for a whole node.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtri, stdtrit

from argosy.report.statistics.estimates import CONFIDENCE
from argosy.report.statistics.least_squares import Matrix, Vector
from argosy.report.topics.laws.fits import Interval

Algorithm = Callable[[int, int], Vector]
"""Traffic of an allreduce by nodes and ranks per node, shape (4,), as multiples of the coefficients.

It has sequential messages and sequential bytes per byte of data, within a node, then between nodes.
"""

_Traffic = tuple[float, float]
"""Sequential messages, and sequential bytes per byte of data."""


def _ring(participants: int) -> _Traffic:
    return 2 * (participants - 1), 2 * (participants - 1) / participants


def _halving(participants: int) -> _Traffic:
    rounds = math.frexp(participants)[1] - 1
    extra = 0 if participants == 1 << rounds else 2
    return 2 * rounds + extra, 2 * (1 - 2.0**-rounds) + extra


def ring(nodes: int, ranks_per_node: int) -> Vector:
    """Return the traffic of one ring over all ranks; in each round, one message leaves each node."""
    around = _ring(nodes * ranks_per_node)
    return np.array([*around, 0.0, 0.0] if nodes == 1 else [0.0, 0.0, *around])


def hierarchical(nodes: int, ranks_per_node: int) -> Vector:
    """Return the traffic of rings: reduce-scatter in nodes, allreduce between them, allgather in nodes."""
    return np.array([*_ring(ranks_per_node), *_ring(nodes)])


def halving(nodes: int, ranks_per_node: int) -> Vector:
    """Return the traffic of recursive halving, neighbours first, so ranks send shares of a node's data."""
    return np.array([*_halving(ranks_per_node), *_halving(nodes)])


# With one rank per node, `hierarchical` equals `ring`, and the first is chosen.
ALGORITHMS: Mapping[str, Algorithm] = {
    "ring": ring,
    "hierarchical": hierarchical,
    "halving": halving,
}


@dataclass(frozen=True)
class Lines:
    """Times of allreduces as linear functions of bytes, one for each of many steps.

    A cycle's negotiation takes `negotiation_share` of the latency.
    """

    latency_s: Vector
    s_per_byte: Vector
    negotiation_share: ClassVar[float] = 0.5


@dataclass(frozen=True)
class Level:
    """A network's latency per message, alpha, and time per byte, beta."""

    latency_s: Interval
    s_per_byte: Interval

    @property
    def bandwidth_bytes_per_s(self) -> Interval:
        """1 / beta, infinite where beta is 0."""
        time = self.s_per_byte
        return Interval(_inverse(time.value), _inverse(time.high), _inverse(time.low))


@dataclass(frozen=True)
class Communication:
    """The algorithm with the smallest AICc, and its networks, None if not measured.

    Args:
        jobs: Smallest number of jobs behind a network's times; None if each time is a separate job. With
            fewer than three jobs a network has no intervals, and `covariance` excludes differences
            between jobs.
        most_nodes: Largest number of nodes with timed allreduces.

        coefficients: alpha and beta within a node, then between nodes; 0 if not measured, also in
            `covariance`.
    """

    algorithm: str
    within_node: Level | None
    between_nodes: Level | None
    measurements: int
    jobs: int | None
    most_nodes: int

    coefficients: Vector
    covariance: Matrix

    def lines(self, nodes: Sequence[int], ranks_per_node: int, rows: Matrix) -> Lines:
        """Return allreduces over all ranks of each number of nodes, with coefficients per step.

        Horovod negotiates by an allreduce of a few bytes, which takes half of the latency. Gloo sends when
        the receiver has announced that it waits, so a message needs two trips. A few bytes are one segment,
        and all receivers but the first have announced themselves before it arrives.

        Args:
            nodes: Number of nodes of each step.
            rows: Coefficients of each step, shape (steps, 4).

        Raises:
            ValueError: A network was not measured.
        """
        sizes, places = np.unique(np.array(nodes), return_inverse=True)
        for size in sizes.tolist():
            if not self.knows(size, ranks_per_node):
                raise ValueError(f"no allreduce tells of {size} x {ranks_per_node} ranks' networks")
        algorithm = ALGORITHMS[self.algorithm]
        sent = np.array([algorithm(size, ranks_per_node) for size in sizes.tolist()])
        terms = rows * sent[places]
        return Lines(terms[:, 0::2].sum(axis=1), terms[:, 1::2].sum(axis=1))

    def drawn(self, chances: Matrix) -> Matrix:
        """Draw coefficients from the fit's joint normal, widened to Student's intervals.

        `chances` are uniform numbers from 0 to 1, of shape (count, 4).
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
        """Check that all networks that these ranks use were measured."""
        unknown = [self.within_node is None] * 2 + [self.between_nodes is None] * 2
        used = ALGORITHMS[self.algorithm](nodes, ranks_per_node) > 0
        return not bool((used & np.array(unknown)).any())


def students(freedom: int) -> float:
    """Return the half width of a 95 % interval, in standard errors."""
    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))


def _correlation(covariance: Matrix) -> Matrix:
    """Return the correlation matrix; the covariance of alpha and beta is ill-conditioned."""
    deviations = np.sqrt(np.diag(covariance))
    units: Vector = np.where(deviations > 0, deviations, 1.0)
    correlation: Matrix = covariance / np.outer(units, units)
    return correlation


def _inverse(value: float) -> float:
    return 1 / value if value else math.inf

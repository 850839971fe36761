"""Networks of a machine, and how long an allreduce takes over them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit

from argosy.analysis.laws import Interval
from argosy.analysis.prediction.algorithms import ALGORITHMS, Algorithm
from argosy.analysis.prediction.robust import Matrix, Vector
from argosy.analysis.statistics import CONFIDENCE


@dataclass(frozen=True)
class Allreduce:
    """The time of an allreduce over given ranks, as a line over its bytes.

    `negotiation_s` is what a cycle of Horovod takes to find out what is ready on all ranks.
    """

    latency_s: float
    s_per_byte: float
    negotiation_s: float = 0.0

    def seconds(self, data_bytes: float) -> float:
        """For `data_bytes` on each rank."""
        return self.latency_s + self.s_per_byte * data_bytes

    def slowed(self, factor: float) -> "Allreduce":
        """One that takes `factor` times as long."""
        return Allreduce(
            self.latency_s * factor, self.s_per_byte * factor, self.negotiation_s * factor
        )


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

    `jobs` is of how many jobs the measurements are, None where each is one of its own; of fewer than
    three the networks have no intervals, and `covariance` does not know how jobs differ. `aicc` is by
    algorithm. `coefficients` are alpha and beta within a node, then between nodes, with their
    `covariance`; both are 0 for what was not measured.
    """

    algorithm: str
    within_node: Level | None
    between_nodes: Level | None
    measurements: int
    jobs: int | None
    residual_sd: float
    aicc: Mapping[str, float]
    coefficients: Vector
    covariance: Matrix

    def allreduces(self, nodes: int, ranks_per_node: int, rows: Matrix) -> list[Allreduce]:
        """Over all ranks of the nodes, for each row of coefficients, shape (rows, 4).

        Horovod negotiates by an allreduce of a few bytes, which takes half of the latency: Gloo sends
        when the receiver has said that it waits, so each message takes two ways; of a few bytes one
        segment alone goes around, and all but the first receiver have said so before it comes.

        Raises ValueError for networks that were not measured.
        """
        if not self.knows(nodes, ranks_per_node):
            raise ValueError(f"no allreduce tells of {nodes} x {ranks_per_node} ranks' networks")
        terms = rows * columns(ALGORITHMS[self.algorithm], nodes, ranks_per_node)
        latencies, slopes = terms[:, 0::2].sum(axis=1), terms[:, 1::2].sum(axis=1)
        lines = zip(latencies.tolist(), slopes.tolist(), strict=True)
        return [Allreduce(latency, slope, latency / 2) for latency, slope in lines]

    def allreduce(self, nodes: int, ranks_per_node: int) -> Allreduce:
        """By the fit's values; see `allreduces`."""
        return self.allreduces(nodes, ranks_per_node, self.coefficients[None, :])[0]

    def drawn(self, count: int, seed: int) -> Matrix:
        """Coefficients as uncertain as the fit's, shape (count, 4), by its joint normal.

        They are Sobol's points, which want a power of two, and whose percentiles are half as uneven
        as those of independent draws. The normal is widened to Student's intervals.
        """
        # Imported where it is needed: it takes half a second, and most reports predict nothing.
        from scipy.stats import qmc

        chances = qmc.Sobol(self.coefficients.size, rng=seed).random(count)
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
        """Whether the networks that so many ranks use were measured."""
        unknown = [self.within_node is None] * 2 + [self.between_nodes is None] * 2
        used = columns(ALGORITHMS[self.algorithm], nodes, ranks_per_node) > 0
        return not bool((used & np.array(unknown)).any())


def columns(algorithm: Algorithm, nodes: int, ranks_per_node: int) -> Vector:
    """What an allreduce of one byte has of the four coefficients, shape (4,)."""
    sent = algorithm(nodes, ranks_per_node)
    within, between = sent.within_node, sent.between_nodes
    return np.array([within.rounds, within.share, between.rounds, between.share])


def students(freedom: int) -> float:
    """Half the width of a 95 % interval in standard errors."""
    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))


def _correlation(covariance: Matrix) -> Matrix:
    """Latencies and seconds of a byte differ by powers of ten, so the covariance is no base."""
    deviations = np.sqrt(np.diag(covariance))
    units: Vector = np.where(deviations > 0, deviations, 1.0)
    correlation: Matrix = covariance / np.outer(units, units)
    return correlation


def _inverse(value: float) -> float:
    return 1 / value if value else math.inf

"""How long an allreduce takes, fitted to measurements of allreduces alone."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.stats import qmc

from argosy.analysis.laws import Interval, Refused
from argosy.analysis.prediction.algorithms import ALGORITHMS, Algorithm
from argosy.analysis.prediction.robust import Matrix, RobustFit, Vector, robust_fit
from argosy.analysis.statistics import CONFIDENCE

FEWEST_MESSAGE_SIZES = 4
LEAST_RATIO_OF_SIZES = 100
FEWEST_TIMES = 8


@dataclass(frozen=True)
class AllreduceTime:
    """A time of one allreduce, by how many ranks and where: `bytes` of data on each rank."""

    bytes: float
    nodes: int
    ranks_per_node: int
    seconds: float


@dataclass(frozen=True)
class Allreduce:
    """The time of an allreduce over given ranks, as a line over its bytes."""

    latency_s: float
    s_per_byte: float

    def seconds(self, data_bytes: float) -> float:
        """For `data_bytes` on each rank."""
        return self.latency_s + self.s_per_byte * data_bytes

    def slowed(self, factor: float) -> "Allreduce":
        """One that takes `factor` times as long."""
        return Allreduce(self.latency_s * factor, self.s_per_byte * factor)


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

    `aicc` is by algorithm. `coefficients` are alpha and beta within a node, then between nodes,
    with their `covariance`; both are 0 for what was not measured.
    """

    algorithm: str
    within_node: Level | None
    between_nodes: Level | None
    measurements: int
    residual_sd: float
    aicc: Mapping[str, float]
    coefficients: Vector
    covariance: Matrix

    def allreduces(self, nodes: int, ranks_per_node: int, rows: Matrix) -> list[Allreduce]:
        """Over all ranks of the nodes, for each row of coefficients, shape (rows, 4).

        Raises ValueError for networks that were not measured.
        """
        if not self.knows(nodes, ranks_per_node):
            raise ValueError(f"no allreduce tells of {nodes} x {ranks_per_node} ranks' networks")
        terms = rows * _columns(ALGORITHMS[self.algorithm], nodes, ranks_per_node)
        latencies, slopes = terms[:, 0::2].sum(axis=1), terms[:, 1::2].sum(axis=1)
        return list(map(Allreduce, latencies.tolist(), slopes.tolist()))

    def allreduce(self, nodes: int, ranks_per_node: int) -> Allreduce:
        """By the fit's values; see `allreduces`."""
        return self.allreduces(nodes, ranks_per_node, self.coefficients[None, :])[0]

    def drawn(self, count: int, seed: int) -> Matrix:
        """Coefficients as uncertain as the fit's, shape (count, 4), by its joint normal.

        They are Sobol's points, which want a power of two, and whose percentiles are half as uneven
        as those of independent draws. The normal is widened to Student's intervals.
        """
        chances = qmc.Sobol(self.coefficients.size, rng=seed).random(count)
        values, vectors = np.linalg.eigh(_correlation(self.covariance))
        root = vectors * np.sqrt(np.clip(values, 0, None))
        errors = stats.norm.ppf(chances) @ root.T * np.sqrt(np.diag(self.covariance))
        wider = _students(self.freedom) / stats.norm.ppf((1 + CONFIDENCE) / 2)
        rows: Matrix = self.coefficients + wider * errors
        return np.maximum(rows, 0.0)

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the fit's residuals."""
        return self.measurements - int(np.count_nonzero(np.diag(self.covariance)))

    def knows(self, nodes: int, ranks_per_node: int) -> bool:
        """Whether the networks that so many ranks use were measured."""
        unknown = [self.within_node is None] * 2 + [self.between_nodes is None] * 2
        used = _columns(ALGORITHMS[self.algorithm], nodes, ranks_per_node) > 0
        return not bool((used & np.array(unknown)).any())


def fit_communication(times: Sequence[AllreduceTime]) -> Communication | Refused:
    """Alpha and beta of both networks, from single measurements; repeats are separate ones.

    Each algorithm is fitted by `robust_fit`, so a few measurements that are far off do no harm.
    The 95 % intervals hold for the chosen algorithm. A time of a single rank is left out.
    """
    known = [time for time in times if time.nodes * time.ranks_per_node > 1]
    refused = _refusal(known)
    if refused:
        return refused
    designs = {name: _design(algorithm, known) for name, algorithm in ALGORITHMS.items()}
    seconds = np.array([time.seconds for time in known])
    fits = {
        name: robust_fit(design[:, design.any(axis=0)], seconds)
        for name, design in designs.items()
        if _identified(design, seconds)
    }
    if not fits:
        return Refused("The measurements do not tell latency from bandwidth for any algorithm.")
    # AICc of algorithms that send the same differ by rounding; then the first is as good.
    best = min(fits, key=lambda name: round(fits[name].aicc, 6))
    used = [place for place in range(4) if designs[best][:, place].any()]
    return _communication(best, fits, used)


def _refusal(times: Sequence[AllreduceTime]) -> Refused | None:
    if not all(_positive(time.seconds) and _positive(time.bytes) for time in times):
        return Refused("A time of an allreduce, or its bytes, is not a positive number.")
    if len({(time.nodes, time.ranks_per_node) for time in times}) < 2:
        return Refused("The fit takes allreduces over 2 different numbers of ranks.")
    if len(times) < FEWEST_TIMES:
        return Refused(f"The fit takes {FEWEST_TIMES} measurements, and there are {len(times)}.")
    for place, several in (("within a node", False), ("between nodes", True)):
        sizes = {time.bytes for time in times if (time.nodes > 1) == several}
        if sizes and not _enough(sizes):
            return Refused(
                f"The fit takes {FEWEST_MESSAGE_SIZES} different sizes of messages {place}, "
                f"the largest {LEAST_RATIO_OF_SIZES} times the smallest."
            )
    return None


def _positive(value: float) -> bool:
    return math.isfinite(value) and value > 0


def _enough(sizes: set[float]) -> bool:
    wide = max(sizes) >= LEAST_RATIO_OF_SIZES * min(sizes)
    return wide and len(sizes) >= FEWEST_MESSAGE_SIZES


def _design(algorithm: Algorithm, times: Sequence[AllreduceTime]) -> Matrix:
    """What each time has of the four coefficients, shape (times, 4)."""
    rows = [_columns(algorithm, time.nodes, time.ranks_per_node) for time in times]
    data: Matrix = np.array([[1.0, time.bytes, 1.0, time.bytes] for time in times])
    return data * np.array(rows)


def _columns(algorithm: Algorithm, nodes: int, ranks_per_node: int) -> Vector:
    sent = algorithm(nodes, ranks_per_node)
    within, between = sent.within_node, sent.between_nodes
    return np.array([within.rounds, within.share, between.rounds, between.share])


def _identified(design: Matrix, seconds: Vector) -> bool:
    used = design[:, design.any(axis=0)] / seconds[:, None]
    unit = used / np.linalg.norm(used, axis=0)
    return bool(np.linalg.matrix_rank(unit) == unit.shape[1])


def _communication(best: str, fits: Mapping[str, RobustFit], used: Sequence[int]) -> Communication:
    fit = fits[best]
    coefficients, covariance = np.zeros(4), np.zeros((4, 4))
    coefficients[used] = fit.coefficients
    covariance[np.ix_(used, used)] = fit.covariance
    half = _students(fit.freedom) * np.sqrt(np.diag(covariance))
    ends = [
        Interval(value, max(0.0, value - width), value + width)
        for value, width in zip(coefficients.tolist(), half.tolist(), strict=True)
    ]
    return Communication(
        algorithm=best,
        within_node=Level(ends[0], ends[1]) if 0 in used else None,
        between_nodes=Level(ends[2], ends[3]) if 2 in used else None,
        measurements=fit.n,
        residual_sd=fit.residual_sd,
        aicc={name: one.aicc for name, one in fits.items()},
        coefficients=coefficients,
        covariance=covariance,
    )


def _correlation(covariance: Matrix) -> Matrix:
    """Latencies and seconds of a byte differ by powers of ten, so the covariance is no base."""
    deviations = np.sqrt(np.diag(covariance))
    units: Vector = np.where(deviations > 0, deviations, 1.0)
    correlation: Matrix = covariance / np.outer(units, units)
    return correlation


def _students(freedom: int) -> float:
    return float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom))


def _inverse(value: float) -> float:
    return 1 / value if value else math.inf

"""The formulas of the scaling laws, and the curve of least squares through runs.

    linear      X = λ N
    Amdahl      X = λ N / (1 + σ (N - 1))                   strong scaling
    Gustafson   X = λ (s + (1 - s) N)                       weak scaling
    USL         X = λ N / (1 + σ (N - 1) + κ N (N - 1))     the universal scalability law
    logarithmic X = λ N / (1 + σ (N - 1) + c N log2 N)      a rival curve: cost of messages along a tree

Amdahl, "Validity of the single processor approach", AFIPS 1967; Gustafson, "Reevaluating Amdahl's
law", CACM 31(5), 1988; Gunther, "Guerrilla Capacity Planning", 2007, eq. 4.30, and "A General
Theory of Computational Scalability Based on Rational Functions", arXiv:0808.1431.

Each is linear in non-negative coefficients: Gustafson's in X, the others in the time of a rank's share,
N / X:

    N / X = parallel + serial N + coherency N (N - 1),   σ = serial / (parallel + serial), …

So 0 <= σ <= 1 and κ >= 0 need no explicit bounds, and fixing a parameter restricts the coefficients to a
smaller cone.

Repeated jobs scatter in proportion to their throughput, so its logarithm has about the same variance at
every size, and all sizes get equal weight.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from argosy.report.statistics.least_squares import Matrix, Vector, first_coefficients, fit_logs


@dataclass(frozen=True)
class Parameter:
    """A parameter of a law's shape, from 0 to `highest`.

    Args:
        of: Computes the parameter from the coefficients.
        cone: Returns the edges, as columns, of the cone of coefficients with a value of the parameter:
            `cone(value) @ free` for any `free` >= 0.
    """

    name: str
    highest: float
    of: Callable[[Vector], float]
    cone: Callable[[float], Matrix]


@dataclass(frozen=True)
class Law:
    """A law, given by its `columns`, one per coefficient, at an array of sizes.

    `of_throughput`: the throughput is linear in them, else the time of a rank's share.
    """

    name: str
    of_throughput: bool
    columns: Callable[[Vector], Matrix]
    parameters: tuple[Parameter, ...]

    @property
    def unknowns(self) -> int:
        """Number of unknowns: λ and the parameters of the shape."""
        return 1 + len(self.parameters)


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def _one(sizes: Vector) -> Matrix:
    return np.ones((sizes.size, 1))


def _two(sizes: Vector) -> Matrix:
    return np.column_stack([np.ones_like(sizes), sizes])


def _three(sizes: Vector) -> Matrix:
    return np.column_stack([np.ones_like(sizes), sizes, sizes * (sizes - 1)])


def _with_logarithm(sizes: Vector) -> Matrix:
    return np.column_stack([np.ones_like(sizes), sizes, sizes * np.log2(sizes)])


LINEAR = Law("linear", False, _one, ())

AMDAHL = Law(
    "amdahl",
    False,
    _two,
    (
        Parameter(
            "serial fraction",
            1.0,
            lambda found: float(found[1] / found.sum()),
            lambda serial: np.array([[1 - serial], [serial]]),
        ),
    ),
)

GUSTAFSON = Law(
    "gustafson",
    True,
    _two,
    (
        Parameter(
            "serial fraction",
            1.0,
            lambda found: float(found[0] / found.sum()),
            lambda serial: np.array([[serial], [1 - serial]]),
        ),
    ),
)

_CONTENTION = Parameter(
    "contention",
    1.0,
    lambda found: _share(float(found[1]), float(found[0] + found[1])),
    lambda sigma: np.array([[1 - sigma, 0.0], [sigma, 0.0], [0.0, 1.0]]),
)


def _third(name: str) -> Parameter:
    return Parameter(
        name,
        math.inf,
        lambda found: _share(float(found[2]), float(found[0] + found[1])),
        lambda value: np.array([[1.0, 0.0], [0.0, 1.0], [value, value]]),
    )


USL = Law("usl", False, _three, (_CONTENTION, _third("coherency")))

LOGARITHMIC = Law(
    "logarithmic", False, _with_logarithm, (_CONTENTION, _third("cost of a doubling"))
)

# The peak is at N = sqrt((1 - σ) / κ) = sqrt(parallel / coherency). Coherency's share of their sum is 0
# without a peak, and 1 if throughput falls from the start.
PEAK = Parameter(
    "coherency's share",
    1.0,
    lambda found: _share(float(found[2]), float(found[0] + found[2])),
    lambda share: np.array([[1 - share, 0.0], [0.0, 1.0], [share, 0.0]]),
)


def peak_at(share: float) -> float:
    """Return the size with the highest throughput, at least one rank."""
    return max(1.0, math.sqrt((1 - share) / share))


_TOLERANCE = 1e-10
"""Relative change of the squares at convergence."""
# Weight of a point on the curve (Lawson and Hanson, "Solving Least Squares Problems", 1974, ch. 22); its
# residual is 1e-8 of the others'.
_PIN = 1e4

ROUNDING = 1e-18
"""Squared rounding error of a log throughput; values that agree to nine digits show no scatter."""


@dataclass(frozen=True)
class Runs:
    """Runs summarised by distinct size, for fits.

    Args:
        counts: Number of runs of each size.
        log_rates: Their mean log throughput, relative to `unit`.
        within: Sum of squares of the repeats around these means, which no fit changes.
    """

    sizes: Vector
    counts: Vector
    log_rates: Vector
    within: float
    unit: float

    @property
    def n(self) -> int:
        """The number of runs."""
        return int(self.counts.sum())

    @property
    def has_scatter(self) -> bool:
        """Whether any repeats differ by more than rounding."""
        return self.within > ROUNDING * self.n


@dataclass(frozen=True)
class Curve:
    """The coefficients of a law, for throughputs in units of `Runs.unit`, and the squares left."""

    coefficients: Vector
    squares: float


def runs_of(sizes: Vector, rates: Vector) -> Runs:
    """Summarise runs by distinct size; `sizes` and positive `rates` have the shape (runs,)."""
    logs = np.log(rates)
    centre = float(logs.mean())
    distinct, place, counts = np.unique(sizes, return_inverse=True, return_counts=True)
    means = np.bincount(place, logs - centre) / counts
    within = float(((logs - centre - means[place]) ** 2).sum())
    return Runs(distinct, counts.astype(np.float64), means, within, math.exp(centre))


def fit_curve(
    law: Law, runs: Runs, cone: Matrix | None = None, through: tuple[float, float] | None = None
) -> Curve:
    """Return the law's curve with the least squares of log residuals.

    Args:
        cone: Restricts the coefficients.
        through: A size and a log throughput that the curve must pass through.
    """
    sizes, logs, weights = runs.sizes, runs.log_rates, np.sqrt(runs.counts)
    if through:
        sizes, logs = np.append(sizes, through[0]), np.append(logs, through[1])
        weights = np.append(weights, _PIN)
    columns = law.columns(sizes)
    target = logs if law.of_throughput else np.log(sizes) - logs
    free = _least_squares(columns if cone is None else columns @ cone, target, weights)
    found = free if cone is None else cone @ free
    return Curve(found, runs.within + _squares(law, runs, found))


def log_rates_at(law: Law, coefficients: Vector, sizes: Vector) -> Vector:
    """Return the log throughput of a curve, in the unit of its runs."""
    with np.errstate(divide="ignore"):
        logs = np.log(law.columns(sizes) @ coefficients)
    return logs if law.of_throughput else np.log(sizes) - logs


def _squares(law: Law, runs: Runs, coefficients: Vector) -> float:
    residuals = runs.log_rates - log_rates_at(law, coefficients, runs.sizes)
    return float(runs.counts @ residuals**2)


def _least_squares(columns: Matrix, target: Vector, weights: Vector) -> Vector:
    """Return b >= 0 with the least weighted squares of target - log(columns @ b)."""

    def weigh(residuals: Vector, _: Vector | None) -> tuple[Vector, float]:
        return weights, float(((weights * residuals) ** 2).sum())

    begin = first_coefficients(columns, target, weights)
    return fit_logs(columns, target, begin, weigh, _TOLERANCE)[0]

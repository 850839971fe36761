"""Least squares on log throughput, with coefficients that are not negative.

Repeated jobs scatter in proportion to what they measure, so the logarithm has about the same
variance at every size, and large sizes do not outweigh small ones.
"""

import math
from dataclasses import dataclass

import numpy as np

from argosy.analysis.laws.formulas import Law
from argosy.analysis.log_least_squares import Matrix, Vector, first_coefficients, fit_logs

_TOLERANCE = 1e-10
"""Of the squares, in the last step."""
# The weight of an observation that the curve has to go through (Lawson and Hanson, "Solving Least
# Squares Problems", 1974, ch. 22): it stays off by 1e-8 of the others' residuals.
_PIN = 1e4


ROUNDING = 1e-18
"""Squares of rounding: throughputs that agree to nine digits have no spread to tell."""


@dataclass(frozen=True)
class Runs:
    """What a fit needs of the runs: for each distinct size their number and mean log throughput.

    `within` is the sum of squares of the repeats around these means, in which no curve has a part.
    `unit` is the throughput of which the logarithms are 0.
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
    """Return the runs by distinct size; `sizes` and positive `rates` have the shape (runs,)."""
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

    The coefficients are held to the `cone`, if there is one, or the curve goes `through` a size and
    its log throughput.
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
    """Log throughput of a curve, in the unit of its runs."""
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

"""Least squares of logarithms with non-negative coefficients, and a robust fit.

Measurements scatter in proportion to their size, so the fit minimises weighted squares of
`target - log(columns @ b)` with b >= 0.

The robust fit assumes Student's t with 4 degrees of freedom for the residuals: outliers get little weight,
and likelihoods of different columns are comparable (Lange, Little and Taylor, "Robust statistical modeling
using the t distribution", JASA 84, 1989). Intervals do not depend on the t: the covariance is that of an
M-estimator, valid for any symmetric scatter (Huber, "Robust Statistics", 1981, eq. 7.6.6).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

Weigh = Callable[[Vector, Vector | None], tuple[Vector, float]]
"""Function of the residuals and the last weights (None at first).

It returns the weights of the next step, and a number whose change decides convergence.
"""

_MOST_STEPS = 100
_MOST_HALVINGS = 20


def log_residuals(columns: Matrix, target: Vector, found: Vector) -> Vector:
    """Return target - log(columns @ found); infinity where the curve is 0."""
    with np.errstate(divide="ignore"):
        return target - np.log(columns @ found)


def first_coefficients(columns: Matrix, target: Vector, weights: Vector) -> Vector:
    """Return initial coefficients, by least squares of relative deviations."""
    # A slow import that a report of one point avoids.
    from scipy.optimize import nnls

    found: Vector = nnls(columns * (weights / np.exp(target))[:, None], weights)[0]
    return found if (columns @ found).min() > 0 else np.ones(columns.shape[1])


def fit_logs(
    columns: Matrix, target: Vector, found: Vector, weigh: Weigh, tolerance: float
) -> tuple[Vector, float]:
    """Return the coefficients of the least squares and the last number of `weigh`.

    Args:
        columns: Non-negative, of shape (n, k).
        target: Logarithms, of shape (n,).
        found: Initial coefficients, of shape (k,).
        tolerance: Relative change of the number of `weigh` at convergence.
    """
    residuals = log_residuals(columns, target, found)
    weights, after = weigh(residuals, None)
    for _ in range(_MOST_STEPS):
        found, residuals = _step(columns, target, weights, found)
        before = after
        weights, after = weigh(residuals, weights)
        if abs(after - before) <= tolerance * before:
            break
    return found, after


def _step(columns: Matrix, target: Vector, weights: Vector, found: Vector) -> tuple[Vector, Vector]:
    """Make a Gauss-Newton step, halved until the squares do not grow; return coefficients and residuals.

    Each step is a linear least squares problem with b >= 0, which finds the active bounds exactly.
    """
    from scipy.optimize import nnls

    fitted, residuals = columns @ found, log_residuals(columns, target, found)
    squares = float(((weights * residuals) ** 2).sum())
    wanted = weights * (1 + target - np.log(fitted))
    towards = nnls(columns * (weights / fitted)[:, None], wanted)[0]
    for _ in range(_MOST_HALVINGS):
        tried = log_residuals(columns, target, towards)
        if float(((weights * tried) ** 2).sum()) <= squares:
            return towards, tried
        towards = (found + towards) / 2
    return found, residuals


_TAIL = 4.0
_TOLERANCE = 1e-6
"""Relative change of the scale at convergence."""
# Measurements that agree to nine digits show no scatter.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class RobustFit:
    """Coefficients, shape (k,), their covariance, shape (k, k), and the scale of n residuals."""

    coefficients: Vector
    covariance: Matrix

    log_likelihood: float
    n: int
    scale: float

    def pseudo(self, residuals: Vector) -> Vector:
        """Return pseudo-residuals, for which least squares give the same coefficients; outliers are shrunk.

        Near its solution an M-estimator is linear in them (Huber, 1981, sec. 7.10).
        """
        influence, curvature = _derivatives(residuals / self.scale)
        return np.asarray(self.scale * influence / curvature.mean(), dtype=np.float64)

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the residuals."""
        return self.n - self.coefficients.size

    @property
    def aicc(self) -> float:
        """Akaike's criterion for small samples (Hurvich and Tsai, Biometrika 76, 1989)."""
        unknowns = self.coefficients.size + 1
        small = 2 * unknowns * (unknowns + 1) / (self.n - unknowns - 1)
        return -2 * self.log_likelihood + 2 * unknowns + small


def robust_fit(columns: Matrix, measured: Vector) -> RobustFit:
    """Fit positive values, shape (n,), by columns of full rank, shape (n, k) with n > k + 2."""
    # An import of half a second, which reports without a prediction avoid.
    from scipy import stats

    units = np.linalg.norm(columns / measured[:, None], axis=0)
    scaled = columns / units
    found, scale = _likeliest(scaled, np.log(measured))
    residuals = np.log(measured) - np.log(scaled @ found)
    covariance = _covariance(scaled / (scaled @ found)[:, None], residuals / scale) * scale**2
    return RobustFit(
        coefficients=found / units,
        covariance=covariance / np.outer(units, units),
        log_likelihood=float(stats.t.logpdf(residuals, _TAIL, scale=scale).sum()),
        n=measured.size,
        scale=scale,
    )


def _likeliest(columns: Matrix, target: Vector) -> tuple[Vector, float]:
    """Return the coefficients and the scale of the residuals, by expectation maximization."""

    def weigh(residuals: Vector, weights: Vector | None) -> tuple[Vector, float]:
        if weights is None:
            scale = float(np.median(np.abs(residuals)))
        else:
            scale = float(np.sqrt(np.mean((weights * residuals) ** 2)))
        scale = max(scale, _ROUNDING)
        return np.sqrt((_TAIL + 1) / (_TAIL + (residuals / scale) ** 2)), scale

    begin = first_coefficients(columns, target, np.ones_like(target))
    return fit_logs(columns, target, begin, weigh, _TOLERANCE)


def _derivatives(residuals: Vector) -> tuple[Vector, Vector]:
    """Return the first two derivatives of minus the log likelihood of t at scaled residuals."""
    spread = _TAIL + residuals**2
    influence = (_TAIL + 1) * residuals / spread
    return influence, (_TAIL + 1) * (_TAIL - residuals**2) / spread**2


def _covariance(slopes: Matrix, residuals: Vector) -> Matrix:
    """Return the covariance, in units of the scale squared; `residuals` are in units of the scale."""
    n, unknowns = slopes.shape
    influence, curvature = _derivatives(residuals)
    mean = float(curvature.mean())
    correction = 1 + unknowns / n * float(curvature.var()) / mean**2
    variance = float((influence**2).sum()) / (n - unknowns)
    factor = variance * (correction / mean) ** 2
    return np.asarray(factor * np.linalg.inv(slopes.T @ slopes), dtype=np.float64)

"""Least squares of logarithms, with coefficients that are not negative.

What is measured scatters in proportion to its size, so squares are those of `target - log(columns @ b)`,
with b >= 0, and each is weighted.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

Weigh = Callable[[Vector, Vector | None], tuple[Vector, float]]
"""Gives the weights for the next step, and the number by which is seen whether steps still change anything.

It is given the residuals, and the weights of the last step or None before the first.
"""

_MOST_STEPS = 100
_MOST_HALVINGS = 20


def log_residuals(columns: Matrix, target: Vector, found: Vector) -> Vector:
    """Return target - log(columns @ found), infinity where the curve is 0."""
    with np.errstate(divide="ignore"):
        return target - np.log(columns @ found)


def first_coefficients(columns: Matrix, target: Vector, weights: Vector) -> Vector:
    """Return coefficients to begin with, of the least squares relative to what was measured."""
    # Imported where it is needed: a report of one point does without, and starts a fifth faster.
    from scipy.optimize import nnls

    found: Vector = nnls(columns * (weights / np.exp(target))[:, None], weights)[0]
    return found if (columns @ found).min() > 0 else np.ones(columns.shape[1])


def fit_logs(
    columns: Matrix, target: Vector, found: Vector, weigh: Weigh, tolerance: float
) -> tuple[Vector, float]:
    """Return the coefficients of the least squares and the last number of `weigh`.

    Args:
        columns: of shape (n, k), none of them negative.
        target: logarithms, of shape (n,).
        found: the coefficients to begin with, of shape (k,).
        tolerance: by how much of itself the number of `weigh` may change in the last step.
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
    """Make a Gauss-Newton step, halved until the squares do not grow; return its end and residuals.

    It is a linear least squares problem with b >= 0, which finds the active bounds exactly.
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

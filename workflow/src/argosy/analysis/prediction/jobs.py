"""How sure coefficients are where the residuals of a job have something in common.

Times within a job share its nodes and its hour, so they are no independent measurements. The covariance
is that of clusters with the correction CR2, and the degrees of freedom are Satterthwaite's (Bell and
McCaffrey, "Bias reduction in standard errors for linear regression with multi-stage samples", Survey
Methodology 28, 2002), with the working covariance of jobs that have an effect in common (Imbens and
Kolesar, Review of Economics and Statistics 98, 2016).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

FEWEST_JOBS = 3
"""Fewer do not tell how jobs differ."""

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Clustered:
    """The covariance of k coefficients, shape (k, k), and the degrees of freedom of each, shape (k,)."""

    covariance: Matrix
    freedom: Vector


def clustered(slopes: Matrix, residuals: Vector, jobs: Sequence[str]) -> Clustered:
    """By jobs, from the `slopes` of a linear fit, shape (n, k), and its residuals, shape (n,)."""
    bread = np.linalg.inv(slopes.T @ slopes)
    hat = slopes @ bread @ slopes.T
    apart = np.eye(residuals.size) - hat
    groups = [np.flatnonzero(np.array(jobs) == job) for job in dict.fromkeys(jobs)]
    weighted = [_root_of_inverse(apart[np.ix_(one, one)]) @ slopes[one] @ bread for one in groups]
    scores = np.array([rows.T @ residuals[one] for rows, one in zip(weighted, groups, strict=True)])
    working = _working(residuals, groups)
    freedom = [
        _freedom([rows[:, place] for rows in weighted], groups, apart, working)
        for place in range(slopes.shape[1])
    ]
    return Clustered(scores.T @ scores, np.array(freedom))


def _root_of_inverse(matrix: Matrix) -> Matrix:
    """The symmetric one; what the fit took up as a whole counts nothing."""
    values, vectors = np.linalg.eigh(matrix)
    inverse = np.where(values > _ROUNDING, 1 / np.sqrt(np.maximum(values, _ROUNDING)), 0.0)
    return np.asarray(vectors * inverse @ vectors.T)


def _working(residuals: Vector, groups: Sequence[NDArray[np.int64]]) -> Matrix:
    """The covariance of times that have noise of their own and an effect of their job."""
    means = np.array([residuals[one].mean() for one in groups])
    counts = np.array([one.size for one in groups])
    rest = sum(float(((residuals[one] - residuals[one].mean()) ** 2).sum()) for one in groups)
    noise = rest / max(residuals.size - len(groups), 1)
    effect = max(0.0, float((means**2 - noise / counts).mean()))
    covariance = max(noise, _ROUNDING) * np.eye(residuals.size)
    for one in groups:
        covariance[np.ix_(one, one)] += effect
    return np.asarray(covariance)


def _freedom(
    rows: Sequence[Vector], groups: Sequence[NDArray[np.int64]], apart: Matrix, working: Matrix
) -> float:
    scores = np.column_stack(
        [apart[:, one] @ weights for weights, one in zip(rows, groups, strict=True)]
    )
    spread = scores.T @ working @ scores
    return float(np.trace(spread) ** 2 / (spread * spread).sum())

"""How sure coefficients are where the residuals of a job have something in common.

Times within a job share its nodes and its hour, so they are no independent measurements. The covariance
is that of clusters with the correction CR2, and the degrees of freedom are Satterthwaite's (Bell and
McCaffrey, "Bias reduction in standard errors for linear regression with multi-stage samples", Survey
Methodology 28, 2002), with the working covariance of jobs that have an effect in common (Imbens and
Kolesar, Review of Economics and Statistics 98, 2016).

With n measurements nothing of the size n x n is made: the hat matrix has the rank k of the fit.
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
    """The covariance of k coefficients, shape (k, k), and the degrees of freedom of each, shape (k,).

    There are none of a coefficient that one job alone tells.
    """

    covariance: Matrix
    freedom: Vector


@dataclass(frozen=True)
class _Job:
    """A job's `slopes`, shape (m, k), as many `weights` of residuals by coefficient, and residuals."""

    slopes: Matrix
    weights: Matrix
    residuals: Vector


def clustered(slopes: Matrix, residuals: Vector, jobs: Sequence[str]) -> Clustered:
    """Return the covariance by jobs, from a linear fit's `slopes`, shape (n, k), and residuals, (n,)."""
    bread: Matrix = np.asarray(np.linalg.inv(slopes.T @ slopes), dtype=np.float64)
    names = np.array(jobs)
    groups = [np.flatnonzero(names == name) for name in dict.fromkeys(jobs)]
    known = [_Job(slopes[one], _weights(slopes[one], bread), residuals[one]) for one in groups]
    scores = np.array([job.weights.T @ job.residuals for job in known])
    noise, effect = _working(known)
    freedom = [_freedom(known, place, bread, noise, effect) for place in range(slopes.shape[1])]
    return Clustered(scores.T @ scores, np.array(freedom))


def _weights(slopes: Matrix, bread: Matrix) -> Matrix:
    """(1 - slopes bread slopes')^-1/2 slopes bread, by the singular values of slopes bread^1/2.

    What the fit took up as a whole counts nothing.
    """
    root = np.linalg.cholesky(bread)
    left, taken, right = np.linalg.svd(slopes @ root, full_matrices=False)
    rest = 1 - taken**2
    more = np.where(rest > _ROUNDING, taken / np.sqrt(np.maximum(rest, _ROUNDING)), 0.0)
    return np.asarray(left * more @ right @ root.T)


def _working(jobs: Sequence[_Job]) -> tuple[float, float]:
    """Return the variances of the noise that times have of their own and of the effect of their job."""
    means = np.array([job.residuals.mean() for job in jobs])
    counts = np.array([job.residuals.size for job in jobs])
    rest = sum(float(((job.residuals - job.residuals.mean()) ** 2).sum()) for job in jobs)
    noise = rest / max(int(counts.sum()) - len(jobs), 1)
    return max(noise, _ROUNDING), max(0.0, float((means**2 - noise / counts).mean()))


def _freedom(jobs: Sequence[_Job], place: int, bread: Matrix, noise: float, effect: float) -> float:
    """Return a coefficient's freedom: c_j is what its score of job j takes of all errors, of c_i' V c_j.

    c_j is the job's weights less what the fit takes of them, slopes bread slopes_j' weights_j.
    """
    columns = [job.weights[:, place] for job in jobs]
    taken = np.array([job.slopes.T @ column for job, column in zip(jobs, columns, strict=True)])
    sums = np.array([job.slopes.sum(axis=0) for job in jobs])
    own = np.diag([float(column @ column) for column in columns])
    of_effects = np.diag([float(column.sum()) for column in columns]) - sums @ bread @ taken.T
    spread = noise * (own - taken @ bread @ taken.T) + effect * (of_effects.T @ of_effects)
    squares = float((spread * spread).sum())
    return float(np.trace(spread) ** 2 / squares) if squares else 0.0

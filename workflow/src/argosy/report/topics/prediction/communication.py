"""Fit alpha and beta of networks to allreduce benchmarks, with errors clustered by job.

Times within a job share its nodes and hour, so they are not independent. The covariance is clustered, with
the correction CR2 and Satterthwaite's degrees of freedom (Bell and McCaffrey, "Bias reduction in standard
errors for linear regression with multi-stage samples", Survey Methodology 28, 2002). The working covariance
has an effect per job (Imbens and Kolesar, Review of Economics and Statistics 98, 2016).

For n measurements no n x n matrix is needed, since the hat matrix has the rank k of the fit.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from argosy.report.statistics.estimates import CONFIDENCE
from argosy.report.statistics.least_squares import Matrix, RobustFit, Vector, robust_fit
from argosy.report.topics.laws.fits import Interval, Refused
from argosy.report.topics.prediction.network import (
    ALGORITHMS,
    Algorithm,
    Communication,
    Level,
    students,
)

FEWEST_JOBS = 3
"""Fewest jobs from which differences between jobs are estimated."""

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Clustered:
    """The covariance of k coefficients, shape (k, k), and the degrees of freedom of each, shape (k,).

    A coefficient that depends on a single job has 0 degrees of freedom.
    """

    covariance: Matrix
    freedom: Vector


@dataclass(frozen=True)
class _Job:
    """A job's slopes and its weights of residuals by coefficient, both (m, k), and residuals, (m,)."""

    slopes: Matrix
    weights: Matrix
    residuals: Vector


def clustered(slopes: Matrix, residuals: Vector, jobs: Sequence[str]) -> Clustered:
    """Return the covariance of a linear fit, clustered by job; slopes have the shape (n, k)."""
    bread: Matrix = np.asarray(np.linalg.inv(slopes.T @ slopes), dtype=np.float64)
    names = np.array(jobs)
    groups = [np.flatnonzero(names == name) for name in dict.fromkeys(jobs)]
    known = [_Job(slopes[one], _weights(slopes[one], bread), residuals[one]) for one in groups]
    scores = np.array([job.weights.T @ job.residuals for job in known])
    noise, effect = _working(known)
    freedom = [_freedom(known, place, bread, noise, effect) for place in range(slopes.shape[1])]
    return Clustered(scores.T @ scores, np.array(freedom))


def _weights(slopes: Matrix, bread: Matrix) -> Matrix:
    """Return (1 - slopes bread slopes')^-1/2 slopes bread, by the singular values of slopes bread^1/2.

    Directions that the fit absorbs completely get the weight 0.
    """
    root = np.linalg.cholesky(bread)
    left, taken, right = np.linalg.svd(slopes @ root, full_matrices=False)
    rest = 1 - taken**2
    more = np.where(rest > _ROUNDING, taken / np.sqrt(np.maximum(rest, _ROUNDING)), 0.0)
    return np.asarray(left * more @ right @ root.T)


def _working(jobs: Sequence[_Job]) -> tuple[float, float]:
    """Return two variances: of the noise of single times, and of the effect of jobs."""
    means = np.array([job.residuals.mean() for job in jobs])
    counts = np.array([job.residuals.size for job in jobs])
    rest = sum(float(((job.residuals - job.residuals.mean()) ** 2).sum()) for job in jobs)
    noise = rest / max(int(counts.sum()) - len(jobs), 1)
    return max(noise, _ROUNDING), max(0.0, float((means**2 - noise / counts).mean()))


def _freedom(jobs: Sequence[_Job], place: int, bread: Matrix, noise: float, effect: float) -> float:
    """Return a coefficient's degrees of freedom, (tr S)² / |S|², with S_ij = c_i' V c_j.

    V is the working covariance; c_j has job j's weights, minus slopes bread slopes_j' weights_j.
    """
    columns = [job.weights[:, place] for job in jobs]
    taken = np.array([job.slopes.T @ column for job, column in zip(jobs, columns, strict=True)])
    sums = np.array([job.slopes.sum(axis=0) for job in jobs])
    own = np.diag([float(column @ column) for column in columns])
    of_effects = np.diag([float(column.sum()) for column in columns]) - sums @ bread @ taken.T
    spread = noise * (own - taken @ bread @ taken.T) + effect * (of_effects.T @ of_effects)
    squares = float((spread * spread).sum())
    return float(np.trace(spread) ** 2 / squares) if squares else 0.0


FEWEST_MESSAGE_SIZES = 4
LEAST_RATIO_OF_SIZES = 100
FEWEST_TIMES = 8


@dataclass(frozen=True)
class AllreduceTime:
    """The time of one allreduce of `bytes` on each rank.

    Times of the same `job` are not independent; "" is a separate job for each time.
    """

    bytes: float
    nodes: int
    ranks_per_node: int
    seconds: float
    job: str = ""


def fit_communication(
    times: Sequence[AllreduceTime], algorithms: Mapping[str, Algorithm] = ALGORITHMS
) -> Communication | Refused:
    """Fit alpha and beta of both networks to single measurements.

    Each algorithm is fitted by `robust_fit`, so a few outliers are harmless. The 95 % intervals are for the
    chosen algorithm; a choice needs several numbers of ranks. Times of a single rank are ignored.
    """
    known = [time for time in times if time.nodes * time.ranks_per_node > 1]
    refused = _refusal(known, len(algorithms))
    if refused:
        return refused
    designs = {name: _design(algorithm, known) for name, algorithm in algorithms.items()}
    seconds = np.array([time.seconds for time in known])
    fits = {
        name: robust_fit(design[:, design.any(axis=0)], seconds)
        for name, design in designs.items()
        if _identified(design, seconds)
    }
    if not fits:
        return Refused("The measurements cannot separate latency from bandwidth for any algorithm.")
    # AICc of equivalent algorithms differs by rounding; then the first is chosen.
    best = min(fits, key=lambda name: round(fits[name].aicc, 6))
    used = [place for place in range(4) if designs[best][:, place].any()]
    errors = _errors(designs[best][:, used], seconds, fits[best], known)
    return _communication(best, fits[best], used, errors, max(time.nodes for time in known))


def _refusal(times: Sequence[AllreduceTime], algorithms: int) -> Refused | None:
    if not all(_positive(time.seconds) and _positive(time.bytes) for time in times):
        return Refused("The time or size of an allreduce is not a positive number.")
    if algorithms > 1 and len({time.nodes * time.ranks_per_node for time in times}) < 2:
        return Refused("The fit needs allreduces over 2 different numbers of ranks.")
    if len(times) < FEWEST_TIMES:
        return Refused(f"The fit needs {FEWEST_TIMES} measurements, and there are {len(times)}.")
    for place, several in (("within a node", False), ("between nodes", True)):
        sizes = {time.bytes for time in times if (time.nodes > 1) == several}
        if sizes and not _enough(sizes):
            return Refused(
                f"The fit needs {FEWEST_MESSAGE_SIZES} different sizes of messages {place}, "
                f"the largest {LEAST_RATIO_OF_SIZES} times the smallest."
            )
    return None


def _positive(value: float) -> bool:
    return math.isfinite(value) and value > 0


def _enough(sizes: set[float]) -> bool:
    wide = max(sizes) >= LEAST_RATIO_OF_SIZES * min(sizes)
    return wide and len(sizes) >= FEWEST_MESSAGE_SIZES


def _design(algorithm: Algorithm, times: Sequence[AllreduceTime]) -> Matrix:
    """Return the contribution of the four coefficients to each time, shape (times, 4)."""
    rows = [algorithm(time.nodes, time.ranks_per_node) for time in times]
    data: Matrix = np.array([[1.0, time.bytes, 1.0, time.bytes] for time in times])
    return data * np.array(rows)


def _identified(design: Matrix, seconds: Vector) -> bool:
    used = design[:, design.any(axis=0)] / seconds[:, None]
    unit = used / np.linalg.norm(used, axis=0)
    return bool(np.linalg.matrix_rank(unit) == unit.shape[1])


def _linear(design: Matrix, seconds: Vector, fit: RobustFit) -> tuple[Matrix, Vector]:
    """Linearise the fit of logarithms at its solution: return slopes and residuals."""
    fitted = design @ fit.coefficients
    return design / fitted[:, None], fit.pseudo(np.log(seconds / fitted))


@dataclass(frozen=True)
class _Errors:
    """The covariance of k coefficients, and the half widths of their intervals, infinite if unknown.

    `jobs` is the smallest number of jobs behind a coefficient; None if each time is a separate job.
    """

    covariance: Matrix
    half: Vector
    jobs: int | None


def _errors(
    design: Matrix, seconds: Vector, fit: RobustFit, times: Sequence[AllreduceTime]
) -> _Errors:
    """Return the errors, clustered by job if jobs have several times; intervals need FEWEST_JOBS."""
    alone = students(fit.freedom) * np.sqrt(np.diag(fit.covariance))
    names = np.array([time.job or f"{place}" for place, time in enumerate(times)])
    if np.unique(names).size == names.size:
        return _Errors(fit.covariance, alone, None)
    jobs = np.array([np.unique(names[column > 0]).size for column in design.T])
    found = clustered(*_linear(design, seconds, fit), names.tolist())
    sure = (jobs >= FEWEST_JOBS) & (found.freedom > 0)
    half, wide = np.full(jobs.size, np.inf), stdtrit(found.freedom[sure], (1 + CONFIDENCE) / 2)
    half[sure] = wide * np.sqrt(np.diag(found.covariance)[sure])
    covariance = fit.covariance.copy()
    covariance[np.ix_(sure, ~sure)] = covariance[np.ix_(~sure, sure)] = 0.0
    # Draws come from a normal distribution, widened to Student's intervals by a common factor.
    wider = np.outer(wide, wide) / students(fit.freedom) ** 2
    covariance[np.ix_(sure, sure)] = found.covariance[np.ix_(sure, sure)] * wider
    return _Errors(covariance, half, int(jobs.min()))


def _communication(
    best: str, fit: RobustFit, used: Sequence[int], errors: _Errors, most_nodes: int
) -> Communication:
    coefficients, covariance, half = np.zeros(4), np.zeros((4, 4)), np.zeros(4)
    coefficients[used], half[used] = fit.coefficients, errors.half
    covariance[np.ix_(used, used)] = errors.covariance
    ends = [
        Interval(value, max(0.0, value - width), value + width)
        for value, width in zip(coefficients.tolist(), half.tolist(), strict=True)
    ]
    return Communication(
        algorithm=best,
        within_node=Level(ends[0], ends[1]) if 0 in used else None,
        between_nodes=Level(ends[2], ends[3]) if 2 in used else None,
        measurements=fit.n,
        jobs=errors.jobs,
        most_nodes=most_nodes,
        coefficients=coefficients,
        covariance=covariance,
    )

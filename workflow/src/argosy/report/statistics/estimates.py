"""Means and ratios of independent jobs, with confidence intervals.

Throughputs and times are positive and scatter in proportion, so their mean is geometric. Hours, joules and
money add up, so their mean is arithmetic.

The unit of observation is a job (one run). Steps within a job are not independent, so intervals from steps
would be too narrow (Hoefler and Belli, "Scientific Benchmarking of Parallel Computing Systems", SC15,
rules 4 to 6).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

CONFIDENCE = 0.95
FEWEST_TO_FLAG = 4
FAR_OFF = 3.5
# Relative spread below which no value is flagged.
_LEAST_SPREAD = 1e-3
# Values that agree to nine digits were rounded and show no scatter.
_ALL_ALIKE = 1e-9
# Largest half width of an interval on the logarithm; e^50 is as good as unbounded.
_FARTHEST = 50.0


@dataclass(frozen=True)
class Estimate:
    """A mean or a ratio of means over `n` jobs, with a confidence interval.

    `low` and `high` are None without an interval: for one job, or jobs that agree to the last digit.
    """

    n: int
    mean: float
    low: float | None = None
    high: float | None = None


def mean_estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of independent jobs with Student's t interval, exact for normal values.

    Equal values, or a single one, give no interval.

    Raises:
        ValueError: There are no values.
    """
    sample = _sample(values)
    return _student(sample, float(np.abs(sample).max()))


def geometric_mean_estimate(values: Sequence[float]) -> Estimate:
    """Return the geometric mean of positive values, with Student's t interval on the logarithm.

    Repeated jobs scatter in proportion to their values (Hoefler and Belli, SC15, rule 4 for rates), so the
    interval stays positive, and means, ratios, factors and laws are consistent.

    Raises:
        ValueError: There are no values, or one is not positive.
    """
    sample = _sample(values)
    if sample.min() <= 0:
        raise ValueError("a geometric mean needs positive values")
    if sample.size == 1:
        return Estimate(1, float(sample[0]))
    return _exponential(_student(np.log(sample)))


def total_estimate(values: Sequence[float]) -> Estimate:
    """Return the arithmetic mean of additive quantities, such as joules, with a positive interval.

    It is Student's t interval on the logarithm of the mean (delta method). A mean of 0, or equal values,
    give no interval.

    Raises:
        ValueError: There are no values, or one is negative.
    """
    sample = _sample(values)
    if sample.min() < 0:
        raise ValueError("terms of a sum must not be negative")
    mean = float(sample.mean())
    if _has_no_scatter(sample, mean) or not mean > 0:
        return Estimate(sample.size, mean)
    error = math.sqrt(_variance_of_mean(sample)) / mean
    half = min(_t_quantile(sample.size - 1) * error, _FARTHEST)
    return Estimate(sample.size, mean, mean * math.exp(-half), mean * math.exp(half))


def together(estimate: Estimate, comparisons: int) -> Estimate:
    """Widen the interval of a ratio for this number of simultaneous comparisons (Bonferroni).

    On the logarithm, it grows by the ratio of Student's t quantiles with n - 1 degrees of freedom.
    """
    if estimate.low is None or estimate.high is None or estimate.n < 2:
        return estimate
    if min(estimate.low, estimate.mean, estimate.high) <= 0:
        return estimate
    wanted = 1 - (1 - CONFIDENCE) / comparisons
    wider = _t_quantile(estimate.n - 1, wanted) / _t_quantile(estimate.n - 1)
    low, high = (
        estimate.mean * math.exp(min(wider * math.log(end / estimate.mean), _FARTHEST))
        for end in (estimate.low, estimate.high)
    )
    return Estimate(estimate.n, estimate.mean, low, high)


def proportion_estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of one share from 0 to 1 per job, with an interval within 0 and 1.

    It is Student's t interval on the log odds of the mean (delta method). A mean of 0 or 1, or equal
    values, give no interval.

    Raises:
        ValueError: There are no values, or one is outside 0 to 1.
    """
    sample = _sample(values)
    if sample.min() < 0 or sample.max() > 1:
        raise ValueError("shares are from 0 to 1")
    mean = float(sample.mean())
    if _has_no_scatter(sample, mean) or not 0 < mean < 1:
        return Estimate(sample.size, mean)
    odds = math.log(mean / (1 - mean))
    error = math.sqrt(_variance_of_mean(sample)) / (mean * (1 - mean))
    half = _t_quantile(sample.size - 1) * error
    low, high = (
        1 / (1 + math.exp(-min(max(end, -500), 500))) for end in (odds - half, odds + half)
    )
    return Estimate(sample.size, mean, low, high)


def ratio_estimate(numerator: Sequence[float], denominator: Sequence[float]) -> Estimate:
    """Return the ratio of two independent sets' geometric means; `n` counts the numerator.

    The interval is Welch's on the logarithm (`log_difference_estimate`): positive, and consistent with the
    inverse ratio. A set of one value, or two sets of equal values, give no interval.

    Raises:
        ValueError: A set has no values, or one that is not positive.
    """
    above, below = _sample(numerator), _sample(denominator)
    if min(above.min(), below.min()) <= 0:
        raise ValueError("a ratio of geometric means needs positive values")
    return log_difference_estimate(np.subtract.outer(np.log(above), np.log(below)))


def share_estimate(
    more: Sequence[float],
    less: Sequence[float],
    whole: Sequence[float],
) -> Estimate:
    """Return (mean of `more` - mean of `less`) / mean of `whole`, for independent sets of jobs.

    `whole` may be the same object as `more`; `n` counts `whole`. The interval is symmetric: the delta
    method for the variance, and Student's t with the degrees of freedom of Welch and Satterthwaite (Welch,
    Biometrika 34, 1947). It may include negative shares. A set of one value, or sets of equal values, give
    no interval.

    Raises:
        ValueError: A set has no values, or the mean of `whole` is not positive.
    """
    upper, lower, total = (_sample(values) for values in (more, less, whole))
    mean = float(total.mean())
    if mean <= 0:
        raise ValueError(f"a share needs a positive whole, not {mean}")
    share = (float(upper.mean()) - float(lower.mean())) / mean
    terms = (
        [(upper, (1 - share) / mean), (lower, -1 / mean)]
        if whole is more
        else [(upper, 1 / mean), (lower, -1 / mean), (total, -share / mean)]
    )
    parts = [part for part, _ in terms]
    if min(part.size for part in parts) < 2 or all(_has_no_scatter(part, mean) for part in parts):
        return Estimate(total.size, share)
    variances = [slope**2 * _variance_of_mean(part) for part, slope in terms]
    half = _t_quantile(_welch_freedom(variances, parts)) * math.sqrt(sum(variances))
    return Estimate(total.size, share, share - half, share + half)


def paired_ratio_estimate(numerator: Sequence[float], denominator: Sequence[float]) -> Estimate:
    """Return the ratio of two quantities that were measured in pairs, such as in turns on one node.

    It is the geometric mean of the pairs' ratios, with Student's t interval on the logarithm (paired t
    test, Student, Biometrika 6, 1908). Common effects of a pair, such as a slow node, cancel; without such
    effects `ratio_estimate` is more precise. One pair gives no interval.

    Raises:
        ValueError: There are no values, the sizes differ, or a value is not positive.
    """
    above, below = _sample(numerator), _sample(denominator)
    if above.size != below.size:
        raise ValueError(f"{above.size} values cannot be paired with {below.size}")
    if min(above.min(), below.min()) <= 0:
        raise ValueError("ratios of pairs need positive values")
    return _exponential(_student(np.log(above) - np.log(below)))


def log_difference_estimate(logs: NDArray[np.float64]) -> Estimate:
    """Return the geometric mean of all ratios a_i / b_j of two independent sets of jobs.

    The interval is Welch's on the logarithm (Biometrika 34, 1947). A set of one job, or equal jobs, give no
    interval.

    Args:
        logs: log(a_i) - log(b_j), of shape (jobs of a, jobs of b).
    """
    n, m = logs.shape
    mean = float(logs.mean())
    parts = (logs.mean(axis=1), logs.mean(axis=0))
    if min(n, m) < 2 or _has_no_scatter(logs, 1.0):
        return Estimate(n, math.exp(mean))
    variances = [_variance_of_mean(part) for part in parts]
    half = _t_quantile(_welch_freedom(variances, parts)) * math.sqrt(sum(variances))
    return Estimate(n, math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def outliers(values: Sequence[float]) -> tuple[bool, ...]:
    """Flag outliers among the repeats of a point; flagged runs remain in all means.

    A flag means a modified z-score of the logarithm, 0.6745 (x - median) / MAD, beyond 3.5 (Iglewicz and
    Hoaglin, "How to Detect and Handle Outliers", 1993, p. 11). MAD is at least one per mille, so
    differences below half a per cent are never flagged. Fewer than FEWEST_TO_FLAG values are never flagged.

    Raises:
        ValueError: A value is not positive.
    """
    if len(values) < FEWEST_TO_FLAG:
        return (False,) * len(values)
    sample = _sample(values)
    if sample.min() <= 0:
        raise ValueError("outliers need positive values")
    off = np.abs(np.log(sample) - np.median(np.log(sample)))
    spread = max(float(np.median(off)), _LEAST_SPREAD)
    return tuple((0.6745 * off / spread > FAR_OFF).tolist())


def scaled(estimate: Estimate, factor: float) -> Estimate:
    """Multiply an estimate and its interval by an exact constant."""
    low, high = estimate.low, estimate.high
    return Estimate(
        estimate.n,
        estimate.mean * factor,
        None if low is None else low * factor,
        None if high is None else high * factor,
    )


def less_one(ratio: Estimate) -> Estimate:
    """Subtract 1 from a ratio and its interval."""
    low, high = (None if end is None else end - 1 for end in (ratio.low, ratio.high))
    return Estimate(ratio.n, ratio.mean - 1, low, high)


def _exponential(log: Estimate) -> Estimate:
    low, high = (None if end is None else math.exp(end) for end in (log.low, log.high))
    return Estimate(log.n, math.exp(log.mean), low, high)


def _sample(values: Sequence[float]) -> NDArray[np.float64]:
    if not values:
        raise ValueError("no values to estimate from")
    return np.asarray(values, dtype=np.float64)


def _student(sample: NDArray[np.float64], scale: float = 1.0) -> Estimate:
    """Return the mean with Student's t interval; the test for equal values is relative to `scale`."""
    mean = float(sample.mean())
    if _has_no_scatter(sample, scale):
        return Estimate(sample.size, mean)
    half = _t_quantile(sample.size - 1) * math.sqrt(_variance_of_mean(sample))
    return Estimate(sample.size, mean, mean - half, mean + half)


def _has_no_scatter(sample: NDArray[np.float64], scale: float) -> bool:
    return sample.size < 2 or bool(np.ptp(sample) <= _ALL_ALIKE * scale)


def _variance_of_mean(sample: NDArray[np.float64]) -> float:
    return float(sample.var(ddof=1)) / sample.size


def _welch_freedom(variances: Sequence[float], parts: Sequence[NDArray[Any]]) -> float:
    """Return the degrees of freedom of Welch and Satterthwaite for a sum of variances of means."""
    sizes = [part.size for part in parts]
    shares = sum(variance**2 / (size - 1) for variance, size in zip(variances, sizes, strict=True))
    return sum(variances) ** 2 / shares


def _t_quantile(freedom: float, confidence: float = CONFIDENCE) -> float:
    return float(stdtrit(freedom, (1 + confidence) / 2))

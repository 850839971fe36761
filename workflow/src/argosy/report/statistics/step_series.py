"""Changes in a run's step times: a lasting change to faster or slower steps, or an approach to a limit.

A change point is a change of the mean log step time, found by the likelihood ratio of normal values
(Hinkley, Biometrika 57, 1970) with a penalty. Values are clipped against outliers (the biweight-like loss
of Fearnhead and Rigaill, "Changepoint Detection in the Presence of Outliers", JASA 114, 2019). The ratio
uses the long-run variance from block means, since neighbouring steps are correlated.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, sqrt

import numpy as np
from numpy.typing import NDArray

# Shortest steady state, so that a few fast last steps do not count.
_SHORTEST_REST = 5
LEAST_SPREAD = 1e-3
"""Smallest spread of log step times; smaller changes are irrelevant."""
_LEAST_VARIANCE = 0.5

Vector = NDArray[np.float64]


def change_to_faster(logs: Vector) -> int:
    """Return the number of steps before the most likely change to faster steps, or 0."""
    penalty = _penalty(logs.size)
    values = _clipped(logs, penalty)
    before = np.arange(1, logs.size - _SHORTEST_REST + 1)
    sums = np.cumsum(values)
    after = logs.size - before
    first = sums[: before.size]
    faster = np.maximum(0, first / before - (sums[-1] - first) / after)
    gains = faster**2 * before * after / logs.size
    place = int(before[np.argmax(gains)])
    rest = np.concatenate([part - part.mean() for part in (values[:place], values[place:])])
    return place if gains.max() > penalty * long_run_variance(rest) else 0


def _penalty(steps: int) -> float:
    """Return the gain, in long-run variances, that at most 5 of 100 steady runs exceed by chance.

    It was found by simulation, for normal, heavy-tailed and autocorrelated (0.5) noise, and periodic slow
    steps. It grows for short series, whose variance is uncertain.
    """
    return 12 + 180 / steps


def _clipped(logs: Vector, penalty: float) -> Vector:
    """Return deviations from the steady level, in units of their spread, clipped against outliers.

    The bound is high enough for a single first step to be found, even with a long-run variance above 1. The
    spread is the larger of two: between neighbours, which a change does not enlarge, and of slow steps in
    the second half, without the slowest.
    """
    steady = np.sort(logs[logs.size // 2 :])
    level = middle(steady)
    of_neighbours = middle(np.sort(np.abs(logs[1:] - logs[:-1]))) / (0.6745 * 2**0.5)
    # 98 of 100 normal values lie below 2.05 standard deviations.
    of_slow_steps = (float(steady[int(0.98 * (steady.size - 1))]) - level) / 2.05
    spread = max(of_neighbours, of_slow_steps, LEAST_SPREAD)
    bound = (4 * penalty) ** 0.5
    return np.asarray(np.minimum(np.maximum((logs - level) / spread, -bound), bound))


def middle(ordered: Vector) -> float:
    """Return the median of sorted values, 2 to 10 times as fast as NumPy for a few hundred steps."""
    return float(ordered[(ordered.size - 1) // 2] + ordered[ordered.size // 2]) / 2


def long_run_variance(rest: Vector) -> float:
    """Return the long-run variance of correlated values; at least 0.5."""
    longest = max(1.0, min(rest.size / 6, 2 * rest.size**0.5))
    return max(_LEAST_VARIANCE, von_neumann_variance(rest, longest))


def von_neumann_variance(values: Vector, longest: float) -> float:
    """Estimate the long-run variance from differences of neighbouring block means.

    Level changes hardly affect it. It is the maximum over blocks of 1, 2, 4, … values, up to `longest` (von
    Neumann, Annals of Mathematical Statistics 12, 1941).
    """
    found, block = 0.0, 1
    while block <= longest and values.size >= 2 * block:
        count = values.size // block
        means = values[values.size - count * block :].reshape(count, block).sum(axis=1) / block
        steps = means[1:] - means[:-1]
        found = max(found, block * float((steps * steps).sum()) / steps.size / 2)
        block *= 2
    return found


LEAST_SLOWDOWN = 1.05
"""Smallest ratio that is reported."""
FEWEST_STEPS = 10
"""Fewest steps on each side of a slowdown; fewer may be an evaluation or a last checkpoint."""
CLEAR = 3.5
"""Smallest difference of means, in standard errors; high, since the change point was searched for."""
_MOST_ALIKE = 0.99


@dataclass(frozen=True)
class Slowdown:
    """Steps from index `begin` on take `ratio` times as long as before."""

    begin: int
    ratio: float


def slowdown(step_s: Vector) -> Slowdown | None:
    """Find a lasting slowdown in the seconds of steps, shape (steps,); None if there is none.

    It is a change to faster steps in reversed order. The last two thirds after the change must be slow, so
    bursts do not count. Correlated steps drift by chance, so the difference of means must exceed the error
    of a first-order autoregression.
    """
    logs = np.log(step_s)
    if logs.size < 2 * FEWEST_STEPS:
        return None
    begin = logs.size - change_to_faster(logs[::-1])
    before, after = logs[:begin], logs[begin:]
    if min(before.size, after.size) < FEWEST_STEPS:
        return None
    level, third = middle(np.sort(before)), after.size // 3
    parts = (after[third : 2 * third], after[2 * third :])
    ratio = exp(min(middle(np.sort(part)) for part in parts) - level)
    if ratio < LEAST_SLOWDOWN or after.mean() - before.mean() < CLEAR * _error(before, after):
        return None
    return Slowdown(begin, exp(middle(np.sort(after)) - level))


def _error(before: Vector, after: Vector) -> float:
    """Return the standard error of the difference of two means in a first-order autoregression.

    Its coefficient is corrected for the bias in short series (Kendall, Biometrika 41, 1954).
    """
    rest = np.concatenate([before - before.mean(), after - after.mean()])
    variance = float(rest @ rest) / rest.size
    if not variance > 0:
        return 0.0
    alike = float(rest[1:] @ rest[:-1]) / rest.size / variance
    # Twice the correction of a single mean, since each part has its own mean.
    alike = min(max((alike * rest.size + 2) / (rest.size - 6), 0.0), _MOST_ALIKE)
    return sqrt(variance * (1 + alike) / (1 - alike) * (1 / before.size + 1 / after.size))


Edges = NDArray[np.int64]

LEAST_AGREEMENT = 0.01
"""Smallest p of the test of residuals; below it, the decay is rejected."""
CLEARLY_WORSE = 9.0
"""Excess squares, in units of the residuals' variance, at which another curve is rejected."""
SAME_LEVEL = 0.01
"""Relative difference below which two limits count as equal."""

_SINGLE_STEPS = 64
_LONG_BLOCKS = 128
_CONSTANTS = 16
_REFINEMENTS = 3
_ROUNDS = 3
_PARAMETERS = 3
_TEST_BLOCKS = 20
_LEAST_OF_BLOCK = 4
_CLIPPED_AT = 4

Shape = Callable[[Edges, float], Vector]


@dataclass(frozen=True)
class Decay:
    """An exponential decay to `steady_s` seconds; the excess falls to 1/e in `time_constant` steps."""

    steady_s: float
    time_constant: float


@dataclass(frozen=True)
class _Fit:
    error: float
    constant: float
    steady: float
    excess: float


@dataclass(frozen=True)
class _Steps:
    """Mean seconds of blocks of steps, from one of `edges` to the next."""

    edges: Edges
    counts: Edges
    means: Vector

    @classmethod
    def of(cls, step_s: Vector) -> "_Steps":
        """Keep early steps single and average late ones in blocks, which makes long runs fast."""
        single = np.arange(min(step_s.size, _SINGLE_STEPS))
        longer = np.geomspace(single.size, step_s.size, _LONG_BLOCKS).round()
        edges = np.unique(np.concatenate([single, longer, [step_s.size]]).astype(np.int64))
        counts = np.diff(edges)
        return cls(edges, counts, np.add.reduceat(step_s, edges[:-1]) / counts)


def fit_decay(step_s: Vector) -> Decay | None:
    """Fit steady + excess * exp(-step / time constant) to the seconds of steps, shape (steps,).

    None if the fit is rejected, or if a hyperbola, 1 / (1 + step / constant), fits as well with another
    limit, which it may reach only after the end of the run.
    """
    steps = _Steps.of(step_s)
    exponential = _best(steps, _exponential)
    if not (exponential.steady > 0 and exponential.excess > 0):
        return None
    fitted = exponential.steady + exponential.excess * np.exp(
        -np.arange(step_s.size) / exponential.constant
    )
    residuals = _clipped_residuals(np.log(step_s / fitted))
    if _agreement(residuals) < LEAST_AGREEMENT:
        return None
    slower = _best(steps, _hyperbolic)
    variance = von_neumann_variance(residuals, _longest(residuals))
    if (
        slower.error - exponential.error < CLEARLY_WORSE * variance
        and abs(slower.steady / exponential.steady - 1) > SAME_LEVEL
    ):
        return None
    return Decay(exponential.steady, exponential.constant)


def _best(steps: _Steps, shape: Shape) -> _Fit:
    """Return the fit of least squares, over time constants from a step to the run's length."""
    low, high = 1.0, float(steps.edges[-1])
    for _ in range(_REFINEMENTS):
        constants = np.geomspace(low, high, _CONSTANTS)
        fits = [_fit(steps, shape(steps.edges, one), one) for one in constants]
        place = min(range(_CONSTANTS), key=lambda one: fits[one].error)
        low, high = constants[max(place - 1, 0)], constants[min(place + 1, _CONSTANTS - 1)]
    return fits[place]


def _exponential(edges: Edges, constant: float) -> Vector:
    falls = np.exp(-edges / constant)
    return np.asarray((falls[:-1] - falls[1:]) / (1 - np.exp(-1 / constant)) / np.diff(edges))


def _hyperbolic(edges: Edges, constant: float) -> Vector:
    # The value at the middle of a step is almost exactly its integral.
    sums = constant * np.log1p(np.maximum(edges - 0.5, -0.5 * constant) / constant)
    return np.asarray(np.diff(sums) / np.diff(edges))


def _fit(steps: _Steps, shape: Vector, constant: float) -> _Fit:
    """Fit by least squares of relative deviations, for one time constant."""
    means, counts = steps.means, steps.counts
    least = means.min() / 4
    fitted = means
    for _ in range(_ROUNDS):
        # Explicit normal equations of two columns, for speed: hundreds of fits per report.
        weights = counts / (fitted * fitted)
        ones, mixed, shapes = weights.sum(), weights @ shape, weights @ (shape * shape)
        right, right_shape = weights @ means, weights @ (shape * means)
        scale = ones * shapes - mixed * mixed
        if not scale > 0:
            return _Fit(np.inf, constant, 0.0, 0.0)
        steady = float((shapes * right - mixed * right_shape) / scale)
        excess = float((ones * right_shape - mixed * right) / scale)
        fitted = np.maximum(steady + excess * shape, least)
    residuals = np.log(means / fitted)
    return _Fit(float(counts @ (residuals * residuals)), constant, steady, excess)


def _clipped_residuals(residuals: Vector) -> Vector:
    """Clip single slow steps, such as checkpoints."""
    level = middle(np.sort(residuals))
    spread = middle(np.sort(np.abs(residuals[1:] - residuals[:-1]))) / (0.6745 * 2**0.5)
    bound = _CLIPPED_AT * max(spread, 1e-6)
    return np.asarray(np.clip(residuals - level, -bound, bound))


def _longest(residuals: Vector) -> float:
    return max(1.0, residuals.size / _TEST_BLOCKS / 2)


def _agreement(residuals: Vector) -> float:
    """Return the p-value of the scatter of block means, if the fit is correct."""
    # A slow import, which most commands avoid.
    from scipy.special import chdtrc

    blocks = min(_TEST_BLOCKS, residuals.size // _LEAST_OF_BLOCK)
    if blocks <= _PARAMETERS:
        return 0.0
    length = residuals.size // blocks
    means = residuals[: blocks * length].reshape(blocks, length).mean(axis=1)
    variance = von_neumann_variance(residuals, _longest(residuals)) / length
    if not variance > 0:
        return 1.0
    apart = float(((means - means.mean()) ** 2).sum()) / variance
    return float(chdtrc(blocks - _PARAMETERS, apart))

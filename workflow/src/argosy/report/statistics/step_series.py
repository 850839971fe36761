"""How a run's step times change: for good to faster or slower ones, or towards a level.

The rule looks for one change of the mean in the log step time, by the likelihood ratio of normal
values (Hinkley, Biometrika 57, 1970), beyond a penalty. It is made fit for step times in two ways.
Single outliers count little: values are clipped, which is the biweight-like loss of Fearnhead and
Rigaill, "Changepoint Detection in the Presence of Outliers", JASA 114, 2019. Neighbouring steps are
alike: the ratio is taken to the long-run variance, from means of blocks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, sqrt

import numpy as np
from numpy.typing import NDArray

# A steady state is as long at least, so that a few last steps that are fast are none.
_SHORTEST_REST = 5
LEAST_SPREAD = 1e-3
"""Of log step times: a change by less than one per mille is no matter."""
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
    """Return the gain, in long-run variances, that chance exceeds in 5 of 100 steady runs at most.

    Found by simulation, the same for normal and heavy-tailed noise, noise with an autocorrelation
    of 0.5, and periodic slow steps; in short series the variance itself is uncertain.
    """
    return 12 + 180 / steps


def _clipped(logs: Vector, penalty: float) -> Vector:
    """Deviations from the steady level in units of their spread.

    They are clipped where a first step alone is enough to be found, with room for a long-run variance
    above 1. The spread is that of neighbours, which a change does not enlarge, or that of the second
    half's slow steps, of which the slowest does not count.
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
    """Return the median; NumPy's takes 2 to 10 times as long for the few hundred steps of most runs."""
    return float(ordered[(ordered.size - 1) // 2] + ordered[ordered.size // 2]) / 2


def long_run_variance(rest: Vector) -> float:
    """Return the variance of a mean times its number of dependent values; half at least."""
    longest = max(1.0, min(rest.size / 6, 2 * rest.size**0.5))
    return max(_LEAST_VARIANCE, von_neumann_variance(rest, longest))


def von_neumann_variance(values: Vector, longest: float) -> float:
    """Return the variance of a mean times its number of values by neighbours: changes hardly count.

    It is the largest over blocks of 1, 2, 4, … values, up to the `longest`, each from the differences of
    neighbouring blocks' means (von Neumann, Annals of Mathematical Statistics 12, 1941).
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
"""Less is not worth a remark."""
FEWEST_STEPS = 10
"""Before the change, and after it: fewer may be an evaluation, or a last checkpoint."""
CLEAR = 3.5
"""In standard errors of the difference of both means, by an autoregression: the change was sought."""
_MOST_ALIKE = 0.99


@dataclass(frozen=True)
class Slowdown:
    """From the step `begin` on, counted from 0, steps take `ratio` times as long as before."""

    begin: int
    ratio: float


def slowdown(step_s: Vector) -> Slowdown | None:
    """Return where the seconds of steps, of shape (steps,), become longer for good; None where they do not.

    It is the change to faster steps of the run read backwards. What comes after has to be slow to its end:
    two thirds of it, so that a burst is none. Steps that are very much alike wander by themselves, so both
    means lie further apart than those of a first-order autoregression do.
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
    """Return the standard error of the difference of two means, of a series whose neighbours are alike.

    The coefficient is corrected for its bias in short series (Kendall, Biometrika 41, 1954).
    """
    rest = np.concatenate([before - before.mean(), after - after.mean()])
    variance = float(rest @ rest) / rest.size
    if not variance > 0:
        return 0.0
    alike = float(rest[1:] @ rest[:-1]) / rest.size / variance
    # Twice a single mean's: each part has its own.
    alike = min(max((alike * rest.size + 2) / (rest.size - 6), 0.0), _MOST_ALIKE)
    return sqrt(variance * (1 + alike) / (1 - alike) * (1 / before.size + 1 / after.size))


Edges = NDArray[np.int64]

LEAST_AGREEMENT = 0.01
"""Of the test of the fit's residuals: below it, the steps do not approach a level in this way."""
CLEARLY_WORSE = 9.0
"""In units of the residuals' variance; an interval of 95 % for one parameter ends there."""
SAME_LEVEL = 0.01
"""Levels that differ by less are the same."""

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
    """Steps take `steady_s` seconds in the end; the excess falls to 1/e in `time_constant` steps."""

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
        """Early steps count by themselves, late ones in blocks: a million takes milliseconds so."""
        single = np.arange(min(step_s.size, _SINGLE_STEPS))
        longer = np.geomspace(single.size, step_s.size, _LONG_BLOCKS).round()
        edges = np.unique(np.concatenate([single, longer, [step_s.size]]).astype(np.int64))
        counts = np.diff(edges)
        return cls(edges, counts, np.add.reduceat(step_s, edges[:-1]) / counts)


def fit_decay(step_s: Vector) -> Decay | None:
    """Fit steady + excess * exp(-step / time constant) to the seconds of steps, of shape (steps,).

    None where the steps do not go this way, or where they might as well fall as 1 / (1 + step / constant),
    to another level: that one is slower to reach than a run may be long.
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
    # A step's value is that in its middle, which is the integral over it but for a hair.
    sums = constant * np.log1p(np.maximum(edges - 0.5, -0.5 * constant) / constant)
    return np.asarray(np.diff(sums) / np.diff(edges))


def _fit(steps: _Steps, shape: Vector, constant: float) -> _Fit:
    """Return the least squares of relative deviations for one time constant."""
    means, counts = steps.means, steps.counts
    least = means.min() / 4
    fitted = means
    for _ in range(_ROUNDS):
        # Normal equations of two columns, by hand: this is done hundreds of times in a report.
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
    """Single slow steps, such as those that save a checkpoint, say nothing of the rest."""
    level = middle(np.sort(residuals))
    spread = middle(np.sort(np.abs(residuals[1:] - residuals[:-1]))) / (0.6745 * 2**0.5)
    bound = _CLIPPED_AT * max(spread, 1e-6)
    return np.asarray(np.clip(residuals - level, -bound, bound))


def _longest(residuals: Vector) -> float:
    return max(1.0, residuals.size / _TEST_BLOCKS / 2)


def _agreement(residuals: Vector) -> float:
    """Return the chance of blocks' means at least as far apart as these, if the fit is right."""
    # Imported where it is needed: SciPy takes longer to load than most commands take.
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

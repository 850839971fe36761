"""The step time that a slowly warming run approaches, where its steps tell which it is."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from argosy.analysis.change_points import middle, von_neumann_variance

Vector = NDArray[np.float64]
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
    residuals = _clipped(np.log(step_s / fitted))
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


def _clipped(residuals: Vector) -> Vector:
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

"""Whether a run becomes slower in its course, as processors do that get hot."""

from dataclasses import dataclass
from math import exp, sqrt

import numpy as np
from numpy.typing import NDArray

from argosy.analysis.change_points import change_to_faster, middle

LEAST_SLOWDOWN = 1.05
"""Less is not worth a remark."""
FEWEST_STEPS = 10
"""Before the change, and after it: fewer may be an evaluation, or a last checkpoint."""
CLEAR = 3.5
"""In standard errors of the difference of both means, by an autoregression: the change was sought."""
_MOST_ALIKE = 0.99

Vector = NDArray[np.float64]


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

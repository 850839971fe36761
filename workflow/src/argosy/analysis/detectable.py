"""Which difference a comparison of so many runs, which scatter so much, would have shown."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import nctdtr, stdtrit

from argosy.analysis.statistics import CONFIDENCE

POWER = 0.8
"""The chance to see a difference of this size."""

_FARTHEST = 50.0
_LEAST_SCATTER = 1e-9


def detectable_ratio(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Return the least ratio above 1 of two geometric means that a t test of such runs finds with POWER.

    By the noncentral t with the pooled standard deviation of the logarithms (Cohen, "Statistical Power
    Analysis", 1988, ch. 2). None where a set has one run, or where runs do not scatter at all.
    """
    logs = [np.log(runs) for runs in (one, other)]
    if min(each.size for each in logs) < 2:
        return None
    freedom = sum(each.size - 1 for each in logs)
    squares = sum(float(((each - each.mean()) ** 2).sum()) for each in logs)
    return _ratio(math.sqrt(squares / freedom * sum(1 / each.size for each in logs)), freedom)


def detectable_pair_ratio(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Return what `detectable_ratio` does, by the t test of pairs; both sets are in one order."""
    ratios = np.log(one) - np.log(other)
    if ratios.size < 2:
        return None
    return _ratio(float(ratios.std(ddof=1)) / math.sqrt(ratios.size), ratios.size - 1)


def _ratio(error: float, freedom: int) -> float | None:
    """Return the detectable ratio by the standard error of a difference of logarithms."""
    if error < _LEAST_SCATTER:
        return None
    # Imported where it is needed: a report of one point does without, and starts a fifth faster.
    from scipy.optimize import brentq

    critical = float(stdtrit(freedom, (1 + CONFIDENCE) / 2))
    # Three times the critical value is found nearly always, and the distribution is still known there.
    highest = 3 * critical + 3
    shift = brentq(lambda shift: 1 - nctdtr(freedom, shift, critical) - POWER, 0.0, highest)
    return math.exp(min(float(shift) * error, _FARTHEST))

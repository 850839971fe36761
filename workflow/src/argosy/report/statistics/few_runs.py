"""Statistics of few runs: slow jobs, medians, detectable differences."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from scipy.special import bdtr, betaincinv, nctdtr, stdtrit

from argosy.report.statistics.estimates import CONFIDENCE, Estimate

FEWEST_RUNS = 5
"""Fewest runs to search for groups; of 4 runs with 5 % scatter, 7 in 100 studies show two by chance."""
LEAST_GAP = 1.1
"""Smallest ratio between the groups."""
TIMES_SCATTER = 4.0
"""Smallest gap between the groups, in standard deviations within them."""
FEWEST_FOR_A_MEDIAN = 6
"""Fewest runs for a 95 % interval; the range of 5 runs covers the median in only 94 of 100 studies."""
_TAIL = (1 - CONFIDENCE) / 2


@dataclass(frozen=True)
class SlowJobs:
    """Slow jobs of a size.

    Args:
        slow: Indices of the slow jobs.
        runs: Number of all jobs.
        ratio: Throughput of the other jobs relative to the slow ones.
        low: Lower end of the 95 % interval of the share of slow jobs; `high` is the upper end.
    """

    slow: tuple[int, ...]
    runs: int
    ratio: float
    low: float
    high: float


def slow_jobs(rates: Sequence[float]) -> SlowJobs | None:
    """Split the throughputs of a size's runs at the largest gap; None unless there are two groups.

    The interval of the share of slow jobs is Clopper and Pearson's (Biometrika 26, 1934).
    """
    logs = np.log(np.asarray(rates, dtype=np.float64))
    if logs.size < FEWEST_RUNS:
        return None
    order = np.argsort(logs)
    gaps = np.diff(logs[order])
    place = int(np.argmax(gaps)) + 1
    slow, others = logs[order[:place]], logs[order[place:]]
    within = sum(float(((one - one.mean()) ** 2).sum()) for one in (slow, others))
    scatter = math.sqrt(within / (logs.size - 2))
    if gaps[place - 1] < math.log(LEAST_GAP) or gaps[place - 1] < TIMES_SCATTER * scatter:
        return None
    low, high = _share(place, logs.size)
    ratio = math.exp(float(others.mean() - slow.mean()))
    return SlowJobs(tuple(sorted(order[:place].tolist())), logs.size, ratio, low, high)


def median_estimate(values: Sequence[float]) -> Estimate | None:
    """Return the median with a distribution-free interval between two order statistics.

    The number of values below the median is binomial (Thompson, Annals of Mathematical Statistics 7, 1936).
    None for fewer than FEWEST_FOR_A_MEDIAN values.
    """
    ordered = sorted(values)
    if len(ordered) < FEWEST_FOR_A_MEDIAN:
        return None
    place = max(
        place for place in range(len(ordered) // 2) if bdtr(place, len(ordered), 0.5) <= _TAIL
    )
    return Estimate(len(ordered), median(ordered), ordered[place], ordered[-1 - place])


def unseen_share(runs: int) -> float:
    """Return the share of slow jobs that this number of runs misses with a probability of 5 %."""
    return float(1 - (1 - CONFIDENCE) ** (1 / runs))


def _share(count: int, runs: int) -> tuple[float, float]:
    low = float(betaincinv(count, runs - count + 1, _TAIL))
    high = float(betaincinv(count + 1, runs - count, 1 - _TAIL))
    return low, high


POWER = 0.8
"""Probability of detecting a detectable difference."""

_FARTHEST = 50.0
_LEAST_SCATTER = 1e-9


def detectable_ratio(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Return the smallest ratio above 1 of two geometric means that a t test detects with POWER.

    It uses the noncentral t with the pooled standard deviation of the logarithms (Cohen, "Statistical Power
    Analysis", 1988, ch. 2). None if a set has one run, or if runs do not scatter.
    """
    logs = [np.log(runs) for runs in (one, other)]
    if min(each.size for each in logs) < 2:
        return None
    freedom = sum(each.size - 1 for each in logs)
    squares = sum(float(((each - each.mean()) ** 2).sum()) for each in logs)
    return _ratio(math.sqrt(squares / freedom * sum(1 / each.size for each in logs)), freedom)


def detectable_pair_ratio(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Return `detectable_ratio` for the paired t test; both sets have the same order."""
    ratios = np.log(one) - np.log(other)
    if ratios.size < 2:
        return None
    return _ratio(float(ratios.std(ddof=1)) / math.sqrt(ratios.size), ratios.size - 1)


def _ratio(error: float, freedom: int) -> float | None:
    """Return the detectable ratio for a standard error of a difference of logarithms."""
    if error < _LEAST_SCATTER:
        return None
    # A slow import that a report of one point avoids.
    from scipy.optimize import brentq

    critical = float(stdtrit(freedom, (1 + CONFIDENCE) / 2))
    # Three times the critical value is almost always detected, and SciPy still computes it.
    highest = 3 * critical + 3
    shift = brentq(lambda shift: 1 - nctdtr(freedom, shift, critical) - POWER, 0.0, highest)
    return math.exp(min(float(shift) * error, _FARTHEST))

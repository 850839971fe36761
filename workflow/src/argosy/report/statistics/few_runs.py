"""What few runs show, and what they cannot: slow jobs, medians, detectable differences."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from scipy.special import bdtr, betaincinv, nctdtr, stdtrit

from argosy.report.statistics.estimates import CONFIDENCE, Estimate

FEWEST_RUNS = 5
"""Of four, chance makes two groups in 7 of 100 studies that scatter by 5 %."""
LEAST_GAP = 1.1
"""Groups lie apart by this ratio at least,"""
TIMES_SCATTER = 4.0
"""and by this many standard deviations within the groups."""
FEWEST_FOR_A_MEDIAN = 6
"""Between the smallest and the largest of five lies the median in 94 of 100 studies."""
_TAIL = (1 - CONFIDENCE) / 2


@dataclass(frozen=True)
class SlowJobs:
    """`slow` of `runs` jobs, by their places, whose throughput is that of the others over `ratio`.

    `low` and `high` are the ends of the interval of the share of slow jobs.
    """

    slow: tuple[int, ...]
    runs: int
    ratio: float
    low: float
    high: float


def slow_jobs(rates: Sequence[float]) -> SlowJobs | None:
    """Return the slow ones among the throughputs of a size's runs, where there are two groups.

    The groups lie on both sides of the largest gap. The interval of their share is that of Clopper and
    Pearson (Biometrika 26, 1934).
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
    """Return the median with the interval between two of the values, which holds for any distribution.

    By the binomial distribution of how many lie below the median (Thompson, Annals of Mathematical
    Statistics 7, 1936): of FEWEST_FOR_A_MEDIAN values the smallest and the largest. None of fewer.
    """
    ordered = sorted(values)
    if len(ordered) < FEWEST_FOR_A_MEDIAN:
        return None
    place = max(
        place for place in range(len(ordered) // 2) if bdtr(place, len(ordered), 0.5) <= _TAIL
    )
    return Estimate(len(ordered), median(ordered), ordered[place], ordered[-1 - place])


def unseen_share(runs: int) -> float:
    """Return the largest share of slow jobs of which so many runs show none with a chance of 5 %."""
    return float(1 - (1 - CONFIDENCE) ** (1 / runs))


def _share(count: int, runs: int) -> tuple[float, float]:
    low = float(betaincinv(count, runs - count + 1, _TAIL))
    high = float(betaincinv(count + 1, runs - count, 1 - _TAIL))
    return low, high


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

"""How good downscaled precipitation is, by the scores of Maraun et al. (VALUE), Earth's Future 3, 2015.

All arrays have the shape (days, points). A score is the mean of that of each point.
"""

import numpy as np
from fields import WET


def scores(chance_of_rain, amount, sampled, observed):
    """Return all of them by name.

    Args:
        chance_of_rain: that a day is wet, or anything that grows with it.
        amount: the expected mm of a day.
        sampled: mm of days drawn from what was predicted, by which extremes are judged.
        observed: mm.
    """
    return {
        "roc_area": roc_area(chance_of_rain, observed >= WET),
        "rmse_mm": float(np.sqrt(((amount - observed) ** 2).mean(axis=0)).mean()),
        "correlation": correlation(amount, observed),
        "bias_p98": float((_p98(sampled) / _p98(observed) - 1).mean()),
    }


def roc_area(values, is_wet):
    """Return the area below the ROC curve: the share of pairs of a wet and a dry day that is told apart.

    By ranks (Mann and Whitney, Ann. Math. Stat. 18, 1947). Points without wet or dry days do not count.
    """
    places = _ranks(values)
    wet = is_wet.sum(axis=0)
    dry = len(is_wet) - wet
    above = np.where(is_wet, places, 0.0).sum(axis=0) - wet * (wet + 1) / 2
    counts = (wet > 0) & (dry > 0)
    return float((above[counts] / (wet * dry)[counts]).mean())


def correlation(ours, theirs):
    """Return Pearson's, over the days."""
    ours, theirs = (each - each.mean(axis=0) for each in (ours, theirs))
    together = (ours * theirs).sum(axis=0)
    apart = np.sqrt((ours**2).sum(axis=0) * (theirs**2).sum(axis=0))
    return float((together / np.maximum(apart, 1e-12)).mean())


def _p98(amounts):
    return np.percentile(amounts, 98, axis=0) + 1e-6


def _ranks(values):
    """Return the places of each point's days in order, from 1; days that are alike share theirs."""
    found = np.empty(values.shape)
    for point in range(values.shape[1]):
        _, inverse, counts = np.unique(values[:, point], return_inverse=True, return_counts=True)
        ends = np.cumsum(counts)
        found[:, point] = (ends - (counts - 1) / 2)[inverse]
    return found

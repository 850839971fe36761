"""Which law a study follows, as far as its runs can tell."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from argosy.report.numbers import percent
from argosy.report.statistics.estimates import CONFIDENCE
from argosy.report.topics.laws.fits import Fit, Fitted, Refused, fit
from argosy.report.topics.laws.formulas import AMDAHL, GUSTAFSON, LINEAR, LOGARITHMIC, USL, Law

LAWS: Mapping[str, tuple[Law, ...]] = {
    "strong": (LINEAR, AMDAHL, USL),
    "weak": (LINEAR, GUSTAFSON, USL),
}

CONTRADICTED = 0.05
"""Below this `lack_of_fit_p` the runs contradict a law."""

BARELY = 0.15
"""Below this `lack_of_fit_p` a law that may as well be the universal one is not named by `FEW_FREE` runs.

Of three sizes with two repeats that follow no law, one study in ten lies near a curve by chance.
"""

FEW_FREE = 5
"""Runs more than sizes, up to which their scatter is known badly."""

TELLING_FREEDOM = 2
"""Degrees of freedom of a law's interval, below which it reaches to 0 whatever is true."""

FEWEST_FREE = 2
"""Runs more than sizes, from which their scatter is known."""

NO_LOSS = 0.95
"""What is surely above this is no loss: an efficiency, or a share of the throughput."""


@dataclass(frozen=True)
class Choice:
    """All laws' fits, the simplest first; the name of the `best`, or why there is none, as a sentence.

    `is_alone` is False where the runs do not tell the best from the universal law, or from one whose cost
    grows with the logarithm of the size.
    """

    fits: Mapping[str, Fit | Refused]
    best: str | None = None
    is_alone: bool = True
    undecided: str | None = None


def choose(scaling: str, sizes: Sequence[float], rates: Sequence[float | None]) -> Choice:
    """Fit the laws for `strong` or `weak` scaling to the same runs (see `fit`) and compare them.

    The best is the simplest.law that misses the sizes' means by no more than repeats scatter (lack of
    fit, F test; Draper and Smith, "Applied Regression Analysis", sec. 2.1). That this is so may be for
    want of runs. So the linear law, which says that nothing is lost, is the best only where the efficiency
    at the largest size is surely above `NO_LOSS`; and Amdahl's and Gustafson's stand alone only where what
    the universal law has besides, its coherency, surely takes less than the rest of the throughput there.
    Strong scaling has a rival that is no law, with a cost by the logarithm of the size: Amdahl's law stands
    alone where that cost surely is as little, and the universal law where the runs contradict the rival.
    What more is asked of the best is in `_named`.
    """
    fits = {law.name: fit(law, sizes, rates) for law in LAWS[scaling]}
    fitted = {name: found for name, found in fits.items() if isinstance(found, Fit)}
    if not fitted:
        return Choice(fits)
    runs = next(iter(fitted.values())).fitted.runs
    if runs.n - runs.sizes.size < FEWEST_FREE:
        return Choice(
            fits,
            undecided="No scaling law is chosen: the scatter of the runs is unknown. Measure at least "
            f"{FEWEST_FREE} more runs than sizes (repeats in config.yaml).",
        )
    if not runs.has_scatter:
        return Choice(
            fits,
            undecided="No scaling law is chosen: repeats agree to the last digit, so "
            "the scatter of the runs is unknown.",
        )
    passing = [name for name, found in fitted.items() if not _is_contradicted(found)]
    if not passing:
        return Choice(fits, undecided=_none_fits(fits))
    if passing[0] == LINEAR.name:
        return _no_loss(fits, fitted[LINEAR.name].fitted)
    return _named(
        fits, fitted[passing[0]], fit(LOGARITHMIC, sizes, rates) if scaling == "strong" else None
    )


def _named(fits: Mapping[str, Fit | Refused], simplest: Fit, rival: Fit | Refused | None) -> Choice:
    """Choose the simplest law that is not contradicted, unless chance may have brought it there.

    What it has besides the simpler laws surely is not 0, where its interval can tell. By few runs it fits
    more than barely, or the runs tell it from the universal law.
    """
    name, chance = simplest.law, simplest.goodness.lack_of_fit_p
    parameter, value = list(simplest.parameters.items())[-1]
    has_few = simplest.runs - len(simplest.sizes) <= FEW_FREE
    if value.low <= 0 and (has_few or simplest.fitted.freedom >= TELLING_FREEDOM):
        return Choice(
            fits,
            undecided="No scaling law is chosen: simpler laws deviate from the means by more than "
            f"repeats scatter, but the {parameter} of the next law may be 0.",
        )
    largest = max(simplest.sizes)
    is_alone = name == USL.name or _takes_little(fits[USL.name], "coherency", largest - 1)
    if has_few and not is_alone and chance is not None and chance < BARELY:
        return Choice(
            fits,
            undecided="No scaling law is chosen: the simplest possible law cannot be "
            "distinguished from the universal law, and chance explains its deviation "
            f"from the means in only {percent(chance)} of studies.",
        )
    if rival is not None:
        is_alone &= (
            isinstance(rival, Fit) and _is_contradicted(rival)
            if name == USL.name
            else _takes_little(rival, "cost of a doubling", math.log2(largest))
        )
    return Choice(fits, name, is_alone)


def _takes_little(found: Fit | Refused, last: str, growth: float) -> bool:
    """Return whether a curve's `last` parameter surely takes little of the throughput at the largest size.

    Its cost there is the parameter times the size and this `growth`.
    """
    if isinstance(found, Refused):
        return False
    size, contention = max(found.sizes), found.parameters["contention"].value
    most = found.parameters[last].high * size * growth
    return most / (1 + contention * (size - 1) + most) < 1 - NO_LOSS


def _is_contradicted(found: Fit) -> bool:
    chance = found.goodness.lack_of_fit_p
    return chance is not None and chance < CONTRADICTED


def _none_fits(fits: Mapping[str, Fit | Refused]) -> str:
    misses = "deviates from the means of the sizes by more than the runs scatter"
    if any(isinstance(found, Refused) for found in fits.values()):
        return f"No scaling law is chosen: each law that can be fitted to so few sizes {misses}."
    return f"Its runs contradict each scaling law, which {misses}."


def _no_loss(fits: Mapping[str, Fit | Refused], fitted: Fitted) -> Choice:
    low, high = _efficiency(fitted)
    if low > NO_LOSS:
        return Choice(fits, LINEAR.name)
    return Choice(
        fits,
        undecided="No scaling law is chosen: the runs cannot show whether more ranks cause a "
        f"loss; the efficiency at the largest size is between {percent(low)} and {percent(high)}.",
    )


def _efficiency(fitted: Fitted) -> tuple[float, float]:
    """Return the interval of the efficiency at the largest size, by the scatter of all sizes' repeats.

    Where repeats share a scatter, by that of the sizes' means.
    """
    runs = fitted.runs
    freedom = runs.n - runs.sizes.size
    variance = runs.within / freedom
    if fitted.has_shared_scatter:
        freedom, variance = fitted.freedom, fitted.variance
    first, last = int(np.argmin(runs.sizes)), int(np.argmax(runs.sizes))
    log = runs.log_rates[last] - runs.log_rates[first]
    log -= math.log(runs.sizes[last] / runs.sizes[first])
    error = math.sqrt(variance * (1 / runs.counts[first] + 1 / runs.counts[last]))
    half = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error
    return math.exp(log - half), math.exp(log + half)

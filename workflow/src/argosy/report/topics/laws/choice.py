"""Choose the scaling law that an experiment follows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from argosy.report.numbers import percent
from argosy.report.statistics.estimates import CONFIDENCE
from argosy.report.topics.laws.fits import Fit, Refused, fit
from argosy.report.topics.laws.formulas import AMDAHL, GUSTAFSON, LINEAR, LOGARITHMIC, USL, Law

LAWS: Mapping[str, tuple[Law, ...]] = {
    "strong": (LINEAR, AMDAHL, USL),
    "weak": (LINEAR, GUSTAFSON, USL),
}

CONTRADICTED = 0.05
"""`lack_of_fit_p` below which the runs contradict a law."""

BARELY = 0.15
"""`lack_of_fit_p` below which few runs (FEW_FREE) choose no law that may also be the universal one.

With three sizes and two repeats that follow no law, one study in ten is near a curve by chance.
"""

FEW_FREE = 5
"""Excess of runs over sizes up to which their scatter is poorly known."""

TELLING_FREEDOM = 2
"""Degrees of freedom below which the interval of a law's parameter always includes 0."""

FEWEST_FREE = 2
"""Smallest excess of runs over sizes from which their scatter is estimated."""

NO_LOSS = 0.95
"""Efficiency, or share of the throughput, that counts as no loss if it is significantly higher."""


@dataclass(frozen=True)
class Choice:
    """Fits of all laws, the simplest first, and the name of the `best`, or a sentence why there is none.

    `is_alone` is False if the runs cannot distinguish the best law from the universal law, or from a cost
    that grows with the logarithm of the size.
    """

    fits: Mapping[str, Fit | Refused]
    best: str | None = None
    is_alone: bool = True
    undecided: str | None = None


def choose(scaling: str, sizes: Sequence[float], rates: Sequence[float | None]) -> Choice:
    """Fit the laws for `strong` or `weak` scaling to the same runs (see `fit`) and choose one.

    The best is the simplest law whose deviation from the sizes' means is within the scatter of repeats
    (lack of fit, F test; Draper and Smith, "Applied Regression Analysis", sec. 2.1). Too few runs may hide
    a deviation, so there are further conditions:

    * The linear law, without loss, requires an efficiency at the largest size significantly above NO_LOSS.
    * Amdahl's and Gustafson's laws are alone if the coherency of the universal law takes significantly less
      than 1 - NO_LOSS of the throughput there.
    * For strong scaling there is a rival curve, with a cost that grows with the logarithm of the size.
      Amdahl's law is alone if this cost is as small; the universal law if the runs contradict the rival.
    * `_named` has the conditions on the parameters of the best law.
    """
    fits = {law.name: fit(law, sizes, rates) for law in LAWS[scaling]}
    fitted = {name: found for name, found in fits.items() if isinstance(found, Fit)}
    if not fitted:
        return Choice(fits)
    runs = next(iter(fitted.values())).runs
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
        return _no_loss(fits, fitted[LINEAR.name])
    return _named(
        fits, fitted[passing[0]], fit(LOGARITHMIC, sizes, rates) if scaling == "strong" else None
    )


def _named(fits: Mapping[str, Fit | Refused], simplest: Fit, rival: Fit | Refused | None) -> Choice:
    """Choose the simplest law that is not contradicted, unless its fit may be due to chance.

    Its last parameter must differ significantly from 0, if its interval can show that. With few runs, it
    must fit more than barely, or differ from the universal law.
    """
    name, chance = simplest.law.name, simplest.lack_of_fit_p
    sizes = simplest.runs.sizes
    parameter, value = list(simplest.parameters.items())[-1]
    has_few = simplest.runs.n - sizes.size <= FEW_FREE
    if value.low <= 0 and (has_few or simplest.freedom >= TELLING_FREEDOM):
        return Choice(
            fits,
            undecided="No scaling law is chosen: simpler laws deviate from the means by more than "
            f"repeats scatter, but the {parameter} of the next law may be 0.",
        )
    largest = float(sizes.max())
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
    """Check that a curve's `last` parameter takes significantly little throughput at the largest size.

    Its cost there is the parameter times the size times `growth`.
    """
    if isinstance(found, Refused):
        return False
    size, contention = float(found.runs.sizes.max()), found.parameters["contention"].value
    most = found.parameters[last].high * size * growth
    return most / (1 + contention * (size - 1) + most) < 1 - NO_LOSS


def _is_contradicted(found: Fit) -> bool:
    chance = found.lack_of_fit_p
    return chance is not None and chance < CONTRADICTED


def _none_fits(fits: Mapping[str, Fit | Refused]) -> str:
    misses = "deviates from the means of the sizes by more than the runs scatter"
    if any(isinstance(found, Refused) for found in fits.values()):
        return f"No scaling law is chosen: each law that can be fitted to so few sizes {misses}."
    return f"Its runs contradict each scaling law, which {misses}."


def _no_loss(fits: Mapping[str, Fit | Refused], fitted: Fit) -> Choice:
    low, high = _efficiency(fitted)
    if low > NO_LOSS:
        return Choice(fits, LINEAR.name)
    return Choice(
        fits,
        undecided="No scaling law is chosen: the runs cannot show whether more ranks cause a "
        f"loss; the efficiency at the largest size is between {percent(low)} and {percent(high)}.",
    )


def _efficiency(fitted: Fit) -> tuple[float, float]:
    """Return the interval of the efficiency at the largest size.

    The variance is of repeats at all sizes, or of the sizes' means if repeats share a scatter.
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

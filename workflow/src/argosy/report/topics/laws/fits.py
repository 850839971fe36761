"""Laws fitted to the throughput of runs, with intervals of confidence by profile likelihood.

A value of a parameter lies within the interval when the best fit that has the value is not
significantly worse than the best fit of all: its squares S exceed the least S0 by no more than
F(0.95; 1, n - p) S0 / (n - p) (Bates and Watts, "Nonlinear Regression Analysis", 1988, sec. 6.1.2).
With Student's t, whose square this F is, instead of the normal, it holds for few runs; unlike
estimate ± t · standard error it does not mind that the parameters are curved and bounded. At a
bound the true level is above 95 % (Self and Liang, JASA 82, 1987): an interval that ends there is
rather too wide.

Repeats of a size may share what other sizes do not: a node, or an hour. Then the sizes' means scatter
by more than the repeats tell. Where there is a sign of it, a lack of fit with p below `SHARED`, their
distances from the curve alone tell how far it may be off. So generous a p is what keeps intervals after
a test of whether to pool near their level (Bancroft, Annals of Mathematical Statistics 15, 1944; Paull,
ibid. 21, 1950).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import fdtrc, stdtrit

from argosy.report.statistics.estimates import CONFIDENCE
from argosy.report.statistics.least_squares import Vector
from argosy.report.topics.laws.formulas import (
    PEAK,
    ROUNDING,
    USL,
    Curve,
    Law,
    Parameter,
    Runs,
    fit_curve,
    log_rates_at,
    peak_at,
    runs_of,
)

SHARED = 0.25
"""`lack_of_fit_p` below which means of sizes count as scattering more than their repeats explain."""

# What reaches as far, a coherency or the log of a factor, is bounded by nothing.
_FURTHEST = 30.0
# Times the step before.
_LONGEST = 16.0


@dataclass(frozen=True)
class Interval:
    """An estimate and its 95 % interval; `low` is 0, or `high` infinite, where nothing bounds it."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Fitted:
    """A law's best curve through the runs."""

    law: Law
    runs: Runs
    curve: Curve

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the variance."""
        runs = self.runs.sizes.size if self.has_shared_scatter else self.runs.n
        return runs - self.law.unknowns

    @property
    def variance(self) -> float:
        """Of a run on the logarithm; of a size's mean, times its runs, where repeats share a scatter."""
        squares = self.missed if self.has_shared_scatter else self.curve.squares
        return max(squares, ROUNDING * self.runs.n) / self.freedom

    @property
    def has_shared_scatter(self) -> bool:
        """Whether there is a sign that repeats of a size share what other sizes do not."""
        chance = self.lack_of_fit_p
        return chance is not None and chance < SHARED

    @property
    def missed(self) -> float:
        """The sum of the squares by which the curve misses the sizes' means, times their runs."""
        return max(self.curve.squares - self.runs.within, 0.0)

    @property
    def lack_of_fit_p(self) -> float | None:
        """Of the F test of `Goodness`."""
        runs = self.runs
        sizes = runs.sizes.size
        of_repeats, of_means = runs.n - sizes, sizes - self.law.unknowns
        if not of_repeats or not of_means:
            return None
        # Rounding is a scatter, too: repeats may agree to the last digit.
        within = max(runs.within, ROUNDING * runs.n) / of_repeats
        return float(fdtrc(of_means, of_repeats, self.missed / of_means / within))


def parameter_interval(fitted: Fitted, parameter: Parameter) -> Interval:
    """Return the interval of a parameter of the law's shape."""

    @cache
    def worse(value: float) -> float:
        return _excess(fitted, fit_curve(fitted.law, fitted.runs, cone=parameter.cone(value)))

    best = min(parameter.of(fitted.curve.coefficients), parameter.highest)
    low = 0.0 if worse(0.0) <= 0 else _crossing(worse, 0.0, best)
    return Interval(best, low, _end(worse, best, parameter.highest))


def throughput_interval(fitted: Fitted, size: float, log_rate: float) -> Interval:
    """Return the interval of the curve at `size`, where its log throughput is `log_rate`; not of a run."""

    @cache
    def worse(log_value: float) -> float:
        through = (size, log_value)
        return _excess(fitted, fit_curve(fitted.law, fitted.runs, through=through))

    below = _end(lambda step: worse(log_rate - step), 0.0)
    above = _end(lambda step: worse(log_rate + step), 0.0)
    rate = fitted.runs.unit * math.exp(log_rate)
    return Interval(rate, rate * math.exp(-below), rate * math.exp(above))


def _excess(fitted: Fitted, curve: Curve) -> float:
    """Return how far a curve is from the best, in standard errors beyond those that chance allows.

    The root of the squares is nearly linear in a parameter, so that it is found in few steps.
    """
    more = max(0.0, curve.squares - fitted.curve.squares) / fitted.variance
    return math.sqrt(more) - float(stdtrit(fitted.freedom, (1 + CONFIDENCE) / 2))


def _end(worse: Callable[[float], float], best: float, highest: float = math.inf) -> float:
    """Return where `worse` turns positive above `best`; `highest` if it does not."""
    inside, step = best, 0.5 * best or 1e-3
    while inside < min(highest, _FURTHEST):
        outside = min(inside + step, highest)
        if worse(outside) > 0:
            return _crossing(worse, inside, outside)
        # As if it were linear, and a little further.
        steps = -1.1 * worse(outside) / max(worse(outside) - worse(inside), ROUNDING)
        inside, step = outside, min(max(2.0, steps), _LONGEST) * step
    return highest


def _crossing(worse: Callable[[float], float], one: float, other: float) -> float:
    # Imported where it is needed: a report of one point does without, and starts a fifth faster.
    from scipy.optimize import brentq

    return float(brentq(worse, one, other, xtol=1e-14, rtol=1e-5))


@dataclass(frozen=True)
class Refused:
    """Why there is no fit, as a sentence for the report."""

    reason: str


@dataclass(frozen=True)
class Goodness:
    """How well a law describes its runs.

    `residual_sd` is the standard deviation of the residuals on the logarithm, so relative to the
    throughput. `r_squared` is that of the logarithm. `lack_of_fit_p` is small when the curve misses
    the sizes' means by more than the repeats scatter (F test; Draper and Smith, "Applied Regression
    Analysis", sec. 2.1); it is None without repeats or without a size more than unknowns.
    """

    residual_sd: float
    r_squared: float
    lack_of_fit_p: float | None


@dataclass(frozen=True)
class Fit:
    """A law with its parameters; rates are in the unit in which they were given.

    `at_one` is λ, the throughput of a single rank, by extrapolation if none was measured.
    `parameters` has the law's others by name. `peak` is the size with the highest throughput
    (USL only), None when no peak is in sight: the interval of κ contains 0.
    """

    law: str
    runs: int
    sizes: tuple[float, ...]
    at_one: Interval
    parameters: Mapping[str, Interval]
    peak: Interval | None
    goodness: Goodness
    fitted: Fitted

    @property
    def is_exact(self) -> bool:
        """Whether the curve leaves nothing but rounding, so that no interval is known."""
        return self.fitted.curve.squares <= ROUNDING * self.runs

    def value_at(self, size: float) -> float:
        """Return the throughput of the curve at a size."""
        return self.fitted.runs.unit * math.exp(_log_rate(self.fitted, size))

    def at(self, size: float) -> Interval:
        """Throughput of the curve at a size, with its interval; single runs scatter more."""
        return _curve_at(self.fitted, size)


def fit(law: Law, sizes: Sequence[float], rates: Sequence[float | None]) -> Fit | Refused:
    """Return the law's curve through the runs: `sizes` in ranks, `rates` in samples/s, one each a run.

    A rate that is None is a run without throughput and left out. Repeats are separate runs. Raises
    ValueError when there are not as many sizes as rates.
    """
    known = [(size, rate) for size, rate in zip(sizes, rates, strict=True) if rate is not None]
    refused = _refusal(law, known)
    if refused:
        return refused
    table = np.array(known, dtype=np.float64)
    runs = runs_of(table[:, 0], table[:, 1])
    fitted = Fitted(law, runs, fit_curve(law, runs))
    if not math.isfinite(_log_rate(fitted, 1.0)):
        return Refused("The throughput falls faster with the ranks than this law allows.")
    parameters = {one.name: parameter_interval(fitted, one) for one in law.parameters}
    return Fit(
        law=law.name,
        runs=runs.n,
        sizes=tuple(runs.sizes.tolist()),
        at_one=_curve_at(fitted, 1.0),
        parameters=parameters,
        peak=_peak(fitted) if law == USL else None,
        goodness=_goodness(fitted),
        fitted=fitted,
    )


def _refusal(law: Law, known: Sequence[tuple[float, float]]) -> Refused | None:
    if not known:
        return Refused("No run has a throughput.")
    if not all(size >= 1 and math.isfinite(size) for size, _ in known):
        return Refused("One of the sizes is not a number of ranks (1 or more).")
    if not all(rate > 0 and math.isfinite(rate) for _, rate in known):
        return Refused("One of the throughputs is not a positive number.")
    distinct, wanted = len({size for size, _ in known}), law.unknowns + 1
    if distinct < wanted:
        return Refused(f"The fit needs {wanted} different sizes, but there are {distinct}.")
    return None


def _curve_at(fitted: Fitted, size: float) -> Interval:
    return throughput_interval(fitted, size, _log_rate(fitted, size))


def _log_rate(fitted: Fitted, size: float) -> float:
    place: Vector = np.array([size], dtype=np.float64)
    return float(log_rates_at(fitted.law, fitted.curve.coefficients, place)[0])


def _peak(fitted: Fitted) -> Interval | None:
    share = parameter_interval(fitted, PEAK)
    if share.low <= 0:
        return None
    return Interval(peak_at(share.value), peak_at(share.high), peak_at(share.low))


def _goodness(fitted: Fitted) -> Goodness:
    runs = fitted.runs
    total = runs.within + float(runs.counts @ runs.log_rates**2)
    squares = max(fitted.curve.squares, ROUNDING * runs.n)
    return Goodness(
        residual_sd=math.sqrt(squares / (runs.n - fitted.law.unknowns)),
        r_squared=1 - fitted.curve.squares / total if total else 1.0,
        lack_of_fit_p=fitted.lack_of_fit_p,
    )

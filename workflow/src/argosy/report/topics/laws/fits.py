"""Fit laws to the throughput of runs, with confidence intervals by profile likelihood.

A value of a parameter is inside the interval if the best fit with this value is not significantly worse
than the best fit of all: its squares S exceed the least S0 by at most F(0.95; 1, n - p) S0 / (n - p) (Bates
and Watts, "Nonlinear Regression Analysis", 1988, sec. 6.1.2). This F is the square of Student's t, so the
interval is valid for few runs. It is also valid for curved and bounded parameters, unlike estimate ± t ·
standard error. At a bound its level is above 95 % (Self and Liang, JASA 82, 1987).

Repeats of a size may share an effect, such as a node or an hour, so that the sizes' means scatter more than
the repeats suggest. At a lack of fit with p below SHARED, the variance is estimated from the means'
distances from the curve only. This high threshold keeps intervals near their level after the test
(Bancroft, Annals of Mathematical Statistics 15, 1944; Paull, ibid. 21, 1950).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

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
"""`lack_of_fit_p` below which repeats count as sharing a scatter."""

# A coherency, or the logarithm of a factor, that counts as unbounded.
_FURTHEST = 30.0
# Largest growth of a search step.
_LONGEST = 16.0


@dataclass(frozen=True)
class Interval:
    """An estimate and its 95 % interval; if unbounded, `low` is 0 or `high` is infinite."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Refused:
    """The reason for a missing result, as a sentence for the report."""

    reason: str


@dataclass(frozen=True)
class Fit:
    """A law's best curve through runs; throughputs have the unit of the given rates."""

    law: Law
    runs: Runs
    curve: Curve

    @cached_property
    def at_one(self) -> Interval:
        """λ, the throughput of a single rank, extrapolated if it was not measured."""
        return self.at(1.0)

    @cached_property
    def parameters(self) -> Mapping[str, Interval]:
        """The law's other parameters by name."""
        return {one.name: _parameter_interval(self, one) for one in self.law.parameters}

    @cached_property
    def peak(self) -> Interval | None:
        """Size with the highest throughput (USL only); None if the interval of κ contains 0."""
        share = _parameter_interval(self, PEAK) if self.law == USL else None
        if share is None or share.low <= 0:
            return None
        return Interval(peak_at(share.value), peak_at(share.high), peak_at(share.low))

    @property
    def residual_sd(self) -> float:
        """Standard deviation of the residuals on the logarithm, so relative to the throughput."""
        squares = max(self.curve.squares, ROUNDING * self.runs.n)
        return math.sqrt(squares / (self.runs.n - self.law.unknowns))

    @property
    def r_squared(self) -> float:
        """R² of the logarithm."""
        total = self.runs.within + float(self.runs.counts @ self.runs.log_rates**2)
        return 1 - self.curve.squares / total if total else 1.0

    @property
    def is_exact(self) -> bool:
        """Whether residuals are only rounding, so that there is no interval."""
        return self.curve.squares <= ROUNDING * self.runs.n

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the variance."""
        runs = self.runs.sizes.size if self.has_shared_scatter else self.runs.n
        return runs - self.law.unknowns

    @property
    def variance(self) -> float:
        """Variance of a run's log throughput, or of a size's mean times its runs if scatter is shared."""
        squares = self.missed if self.has_shared_scatter else self.curve.squares
        return max(squares, ROUNDING * self.runs.n) / self.freedom

    @property
    def has_shared_scatter(self) -> bool:
        """Whether repeats of a size seem to share an effect that other sizes do not have."""
        chance = self.lack_of_fit_p
        return chance is not None and chance < SHARED

    @property
    def missed(self) -> float:
        """Squared distances of the sizes' means from the curve, weighted by their runs."""
        return max(self.curve.squares - self.runs.within, 0.0)

    @property
    def lack_of_fit_p(self) -> float | None:
        """Small if the curve misses the sizes' means by more than repeats scatter.

        It is of an F test (Draper and Smith, "Applied Regression Analysis", sec. 2.1); None without
        repeats, or without more sizes than unknowns.
        """
        runs = self.runs
        sizes = runs.sizes.size
        of_repeats, of_means = runs.n - sizes, sizes - self.law.unknowns
        if not of_repeats or not of_means:
            return None
        # Repeats that agree to the last digit scatter by rounding.
        within = max(runs.within, ROUNDING * runs.n) / of_repeats
        return float(fdtrc(of_means, of_repeats, self.missed / of_means / within))

    def value_at(self, size: float) -> float:
        """Return the throughput of the curve at a size."""
        return self.runs.unit * math.exp(_log_rate(self, size))

    def at(self, size: float) -> Interval:
        """Return the throughput of the curve at a size, with its interval; single runs scatter more."""
        log_rate = _log_rate(self, size)

        @cache
        def worse(log_value: float) -> float:
            return _excess(self, fit_curve(self.law, self.runs, through=(size, log_value)))

        below = _end(lambda step: worse(log_rate - step), 0.0)
        above = _end(lambda step: worse(log_rate + step), 0.0)
        rate = self.runs.unit * math.exp(log_rate)
        return Interval(rate, rate * math.exp(-below), rate * math.exp(above))


def _parameter_interval(fitted: Fit, parameter: Parameter) -> Interval:
    """Return the interval of a parameter of the law's shape."""

    @cache
    def worse(value: float) -> float:
        return _excess(fitted, fit_curve(fitted.law, fitted.runs, cone=parameter.cone(value)))

    best = min(parameter.of(fitted.curve.coefficients), parameter.highest)
    low = 0.0 if worse(0.0) <= 0 else _crossing(worse, 0.0, best)
    return Interval(best, low, _end(worse, best, parameter.highest))


def _excess(fitted: Fit, curve: Curve) -> float:
    """Return a curve's distance from the best, in standard errors, minus Student's t.

    The root of the squares is nearly linear in a parameter, so its zero is found in few steps.
    """
    more = max(0.0, curve.squares - fitted.curve.squares) / fitted.variance
    return math.sqrt(more) - float(stdtrit(fitted.freedom, (1 + CONFIDENCE) / 2))


def _end(worse: Callable[[float], float], best: float, highest: float = math.inf) -> float:
    """Return the point above `best` at which `worse` turns positive, or `highest`."""
    inside, step = best, 0.5 * best or 1e-3
    while inside < min(highest, _FURTHEST):
        outside = min(inside + step, highest)
        if worse(outside) > 0:
            return _crossing(worse, inside, outside)
        # Extrapolate linearly, and a little further.
        steps = -1.1 * worse(outside) / max(worse(outside) - worse(inside), ROUNDING)
        inside, step = outside, min(max(2.0, steps), _LONGEST) * step
    return highest


def _crossing(worse: Callable[[float], float], one: float, other: float) -> float:
    # A slow import that a report of one point avoids.
    from scipy.optimize import brentq

    return float(brentq(worse, one, other, xtol=1e-14, rtol=1e-5))


def fit(law: Law, sizes: Sequence[float], rates: Sequence[float | None]) -> Fit | Refused:
    """Fit a law to runs.

    Args:
        sizes: Ranks of each run.
        rates: Throughput of each run, in samples/s; runs with None are ignored.

    Raises:
        ValueError: The numbers of sizes and rates differ.
    """
    known = [(size, rate) for size, rate in zip(sizes, rates, strict=True) if rate is not None]
    refused = _refusal(law, known)
    if refused:
        return refused
    table = np.array(known, dtype=np.float64)
    runs = runs_of(table[:, 0], table[:, 1])
    found = Fit(law, runs, fit_curve(law, runs))
    if not math.isfinite(_log_rate(found, 1.0)):
        return Refused("The throughput falls faster with the ranks than this law allows.")
    return found


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


def _log_rate(fitted: Fit, size: float) -> float:
    place: Vector = np.array([size], dtype=np.float64)
    return float(log_rates_at(fitted.law, fitted.curve.coefficients, place)[0])

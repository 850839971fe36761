"""Laws fitted to the throughputs of single, independent jobs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from argosy.analysis.laws.formulas import PEAK, USL, Law, peak_at
from argosy.analysis.laws.intervals import (
    Fitted,
    Interval,
    parameter_interval,
    throughput_interval,
)
from argosy.analysis.laws.least_squares import ROUNDING, fit_curve, log_rates_at, runs_of
from argosy.analysis.log_least_squares import Vector


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
        return Refused("The throughput falls faster with the ranks than this law can.")
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
        return Refused("A size is a number of ranks, 1 or more.")
    if not all(rate > 0 and math.isfinite(rate) for _, rate in known):
        return Refused("A throughput is not a positive number.")
    distinct, wanted = len({size for size, _ in known}), law.unknowns + 1
    if distinct < wanted:
        return Refused(f"The fit takes {wanted} different sizes, and there are {distinct}.")
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

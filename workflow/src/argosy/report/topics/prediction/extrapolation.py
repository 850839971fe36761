"""Throughput of sizes beyond the measured ones, by the universal scalability law and throughputs alone.

The law (Gunther, arXiv:0808.1431) is fitted to the ranks of all runs. Of the laws here it alone has a loss
that may grow faster than the ranks, so its intervals are the widest.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy.special import stdtrit

from argosy.report.runs.measurements import Measurement
from argosy.report.statistics.estimates import CONFIDENCE
from argosy.report.topics.laws import CONTRADICTED, USL, Fit, Interval, Refused, fit

FEWEST_SIZES = 4

FARTHEST = 2
"""Times the largest number of ranks that was measured."""


@dataclass(frozen=True)
class Extrapolation:
    """The fitted law.

    `means` are the geometric means of throughputs in samples/s, by measured number of ranks;
    `ranks_per_node` is the largest that was measured.
    """

    fit: Fit
    ranks_per_node: int
    means: Mapping[int, float]

    @property
    def most_nodes(self) -> int:
        """The largest number of nodes that was measured."""
        return max(1, max(self.means) // self.ranks_per_node)

    def samples_per_s(self, ranks: int) -> Interval:
        """Return the throughput of so many ranks, with the interval of a run to come."""
        curve, fitted = self.fit.at(ranks), self.fit.fitted
        run = float(stdtrit(fitted.freedom, (1 + CONFIDENCE) / 2)) * math.sqrt(fitted.variance)
        below = math.hypot(_log_ratio(curve.value, curve.low), run)
        above = math.hypot(_log_ratio(curve.high, curve.value), run)
        return _around(curve.value, below, above)

    def efficiency(self, ranks: int) -> Interval:
        """Return the efficiency of so many ranks against the smallest measured size.

        The ends of both throughputs are taken at their worst, so that the interval is rather too wide.
        """
        base = min(self.means)
        here, there = self.fit.at(ranks), self.fit.at(base)
        below = _log_ratio(here.value, here.low) + _log_ratio(there.high, there.value)
        above = _log_ratio(here.high, here.value) + _log_ratio(there.value, there.low)
        return _around(here.value / ranks / (there.value / base), below, above)


def extrapolation(runs: Sequence[Measurement]) -> Extrapolation | Refused:
    """Return the law fitted to the runs of one experiment, or why nothing is said of other sizes."""
    known = [(run.point, run.samples_per_s) for run in runs if run.samples_per_s]
    rates: dict[int, list[float]] = {}
    for point, rate in known:
        rates.setdefault(point.ranks, []).append(rate)
    if len(rates) < FEWEST_SIZES:
        there = "there is 1" if len(rates) == 1 else f"there are {len(rates)}"
        return Refused(
            f"An extrapolation by throughput alone takes {FEWEST_SIZES} numbers of ranks, and {there}."
        )
    found = fit(USL, [point.ranks for point, _ in known], [rate for _, rate in known])
    if isinstance(found, Refused):
        return found
    chance = found.goodness.lack_of_fit_p
    if chance is not None and chance < CONTRADICTED:
        return Refused(
            "Its runs contradict the universal law, by which throughput is extrapolated."
        )
    if found.is_exact:
        return Refused(
            "Its throughputs lie on a curve to the last digit, so an extrapolation has no interval."
        )
    means = {ranks: math.exp(sum(map(math.log, of)) / len(of)) for ranks, of in rates.items()}
    return Extrapolation(found, max(point.ranks_per_node for point, _ in known), means)


def _around(value: float, below: float, above: float) -> Interval:
    """Return the interval that reaches so far on the logarithm; e^500 is as good as unbounded."""
    high = math.inf if above > 500 else value * math.exp(above)
    return Interval(value, value * math.exp(-below), high)


def _log_ratio(high: float, low: float) -> float:
    return math.log(high / low) if low > 0 and math.isfinite(high) else math.inf

"""Answer questions by the network if it was measured, else by extrapolating throughputs.

The extrapolation fits the universal law (Gunther, arXiv:0808.1431) to the ranks of all runs. It is the only
law whose loss may grow faster than the ranks, so its intervals are the widest.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from scipy.special import stdtrit

from argosy.report.numbers import count
from argosy.report.runs.measurements import Measurement, measurements
from argosy.report.runs.scaling import scaling
from argosy.report.runs.setups import NamedSetup
from argosy.report.runs.study_tables import open_study
from argosy.report.statistics.estimates import CONFIDENCE
from argosy.report.summary.parts import NOT_KNOWN, PredictedPoint, PredictionSummary, Rates
from argosy.report.topics.laws.choice import CONTRADICTED
from argosy.report.topics.laws.fits import Fit, Interval, Refused, fit
from argosy.report.topics.laws.formulas import USL
from argosy.report.topics.phases import step_times
from argosy.report.topics.prediction.answers import (
    Question,
    estimate,
    fastest_within,
    largest_with_efficiency,
    powers_up_to,
    prediction_summary,
)
from argosy.report.topics.prediction.inputs import Measured, everything, known_training
from argosy.report.topics.usage import usage
from argosy.results import ResultsError

FEWEST_SIZES = 4
FARTHEST = 2
"""Extrapolations reach up to this many times the largest measured number of ranks."""


@dataclass(frozen=True)
class Extrapolation:
    """The fitted law.

    Args:
        ranks_per_node: The largest measured number.
        means: Geometric means of throughputs, in samples/s, by measured number of ranks.
        measured: Numbers of nodes that were measured with `ranks_per_node`.
    """

    fit: Fit
    ranks_per_node: int
    means: Mapping[int, float]
    measured: frozenset[int]

    @property
    def most_nodes(self) -> int:
        """The largest number of nodes that the measured ranks fill."""
        return max(1, max(self.means) // self.ranks_per_node)

    def samples_per_s(self, ranks: int) -> Interval:
        """Return the throughput of a number of ranks, with the interval of a future run."""
        curve = self.fit.at(ranks)
        t = float(stdtrit(self.fit.freedom, (1 + CONFIDENCE) / 2))
        run = t * math.sqrt(self.fit.variance)
        below = math.hypot(_log_ratio(curve.value, curve.low), run)
        above = math.hypot(_log_ratio(curve.high, curve.value), run)
        return _around(curve.value, below, above)

    def efficiency(self, ranks: int) -> Interval:
        """Return the efficiency of a number of ranks relative to the smallest measured size.

        The interval combines the worst ends of both throughputs, so it is conservative.
        """
        base = min(self.means)
        here, there = self.fit.at(ranks), self.fit.at(base)
        below = _log_ratio(here.value, here.low) + _log_ratio(there.high, there.value)
        above = _log_ratio(here.high, here.value) + _log_ratio(there.value, there.low)
        return _around(here.value / ranks / (there.value / base), below, above)


def extrapolation(runs: Sequence[Measurement]) -> Extrapolation | Refused:
    """Fit the law to the runs of one experiment, or return why it cannot be extrapolated."""
    known = [(run.point, run.samples_per_s) for run in runs if run.samples_per_s]
    rates: dict[int, list[float]] = {}
    for point, rate in known:
        rates.setdefault(point.ranks, []).append(rate)
    if len(rates) < FEWEST_SIZES:
        there = "there is 1" if len(rates) == 1 else f"there are {len(rates)}"
        return Refused(
            f"An extrapolation by throughput alone needs {FEWEST_SIZES} different numbers of "
            f"ranks, but {there}."
        )
    if unsure := next((one for one in scaling(runs) if one.no_interval), None):
        return Refused(
            "An extrapolation by throughput alone needs sizes that can be compared, but of "
            f"{count(unsure.point.nodes, 'node')}: {unsure.no_interval}."
        )
    found = fit(USL, [point.ranks for point, _ in known], [rate for _, rate in known])
    if isinstance(found, Refused):
        return found
    chance = found.lack_of_fit_p
    if chance is not None and chance < CONTRADICTED:
        return Refused("Its runs contradict the universal law, which the extrapolation needs.")
    if found.is_exact:
        return Refused(
            "Its throughputs fit the curve exactly, so an extrapolation has no interval."
        )
    means = {ranks: math.exp(sum(map(math.log, of)) / len(of)) for ranks, of in rates.items()}
    width = max(point.ranks_per_node for point, _ in known)
    measured = frozenset(point.nodes for point, _ in known if point.ranks_per_node == width)
    return Extrapolation(found, width, means, measured)


def _around(value: float, below: float, above: float) -> Interval:
    """Return the interval with these distances on the logarithm; beyond e^500 it is unbounded."""
    high = math.inf if above > 500 else value * math.exp(above)
    return Interval(value, value * math.exp(-below), high)


def _log_ratio(high: float, low: float) -> float:
    return math.log(high / low) if low > 0 and math.isfinite(high) else math.inf


_HOUR_S = 3600.0


def extrapolation_summary(
    found: Extrapolation, question: Question, rates: Rates = NOT_KNOWN
) -> PredictionSummary:
    """Answer a question, for up to FARTHEST times the measured size.

    Rows are measured sizes, powers of two, and requested sizes. Answers are among all numbers of nodes, by
    the best estimate.
    """
    farthest = FARTHEST * found.most_nodes
    base = min(found.means)
    of_rank = found.fit.value_at(base) / base
    speeds = {
        nodes: found.fit.value_at(nodes * found.ranks_per_node) / nodes
        for nodes in range(1, farthest + 1)
    }
    least = question.efficiency * of_rank * found.ranks_per_node
    efficient = largest_with_efficiency(speeds, least)
    soonest = fastest_within(speeds, question.node_hours, question.samples)
    answers = {nodes for nodes in (efficient, soonest) if nodes}
    told = {*powers_up_to(farthest), *found.measured, *question.nodes, *answers}
    shown = [
        _point(found, nodes, question.samples, rates)
        for nodes in sorted(told)
        if 1 <= nodes <= farthest
    ]
    surely = [one.nodes for one in shown if (one.efficiency.low or 0.0) >= question.efficiency]
    asked = {*(question.nodes or told), *answers, *surely[-1:]}
    return PredictionSummary(
        method="universal law",
        collectives=None,
        algorithm=None,
        within_node=None,
        between_nodes=None,
        network_factor=1.0,
        notes=_grounds(found, farthest),
        samples=question.samples,
        interval_nodes=farthest,
        farthest_nodes=farthest,
        points=[one for one in shown if one.nodes in asked],
        asked_efficiency=question.efficiency,
        nodes_with_efficiency=efficient,
        nodes_surely_with_efficiency=surely[-1] if surely else None,
        misses=[],
        asked_node_hours=question.node_hours,
        nodes_within=soonest,
    )


def _grounds(found: Extrapolation, farthest: int) -> list[str]:
    base = count(min(found.means), "rank")
    sizes = ", ".join(map(str, sorted(found.means)))
    return [
        f"This is an extrapolation by the universal scalability law, fitted to the throughput of {sizes} "
        f"ranks. It does not model the network, and ends at {count(farthest, 'node')}, {FARTHEST} times "
        f"the largest measured size. Efficiency is relative to {base}."
    ]


def _point(found: Extrapolation, nodes: int, samples: float, rates: Rates) -> PredictedPoint:
    ranks = nodes * found.ranks_per_node
    rate = found.samples_per_s(ranks)
    measured = found.means[ranks] if nodes in found.measured else None
    # Higher throughput means fewer hours, so the ends are swapped.
    hours = Interval(*(_hours(samples, one) for one in (rate.value, rate.high, rate.low)))
    price = rates.price_per_node_hour
    return PredictedPoint(
        nodes=nodes,
        ranks=ranks,
        step_s=None,
        efficiency=estimate(found.efficiency(ranks)),
        samples_per_s=estimate(rate),
        hours=estimate(hours),
        node_hours=estimate(hours, nodes),
        energy_kwh=None,
        price=estimate(hours, nodes * price) if price else None,
        carbon_kg=None,
        measured_samples_per_s=measured,
        error=measured / rate.value - 1 if measured else None,
    )


def _hours(samples: float, rate: float) -> float:
    return samples / rate / _HOUR_S if rate else math.inf


def predicted(
    tables_dir: Path,
    experiment: str,
    question: Question,
    rates: Rates = NOT_KNOWN,
    collectives: str | None = None,
) -> PredictionSummary:
    """Answer a question on one experiment, by the network of the experiment `collectives`.

    Raises:
        ResultsError: There is no answer, or a table cannot be read.
    """
    with open_study(tables_dir) as tables:
        for asked in filter(None, (experiment, collectives)):
            _check_setup(asked, tables.setups)
        if experiment not in tables.setups:
            there = f"there are: {', '.join(tables.setups)}" if tables.setups else "there is none"
            raise ResultsError(f"{experiment}: no such experiment in {tables_dir}", there)
        found = everything(tables, measurements(tables), step_times(tables), usage(tables))
    answers = prediction_of(found, experiment, question, rates, collectives)
    if isinstance(answers, Refused):
        raise ResultsError(f"{experiment}: {answers.reason}")
    return answers


def _check_setup(experiment: str, setups: Mapping[str, NamedSetup]) -> None:
    several = [name for name, named in setups.items() if named.experiment == experiment]
    if several and experiment not in setups:
        raise ResultsError(
            f"{experiment}: its runs have different setups (the report names the differences)",
            f"name one setup, in quotation marks: {', '.join(several)}",
        )


def prediction_of(
    found: Measured,
    experiment: str,
    question: Question | None = None,
    rates: Rates = NOT_KNOWN,
    collectives: str | None = None,
) -> PredictionSummary | Refused:
    """Answer a question on one experiment, by the network if it was measured, else by throughputs."""
    asked = question or Question()
    known = known_training(found, experiment, collectives)
    answers = known if isinstance(known, Refused) else prediction_summary(known, asked, rates)
    if not isinstance(answers, Refused) or collectives or experiment in found.allreduces:
        return answers
    runs = [run for run in found.runs if run.experiment == experiment]
    by_law = extrapolation(runs)
    if isinstance(by_law, Refused):
        return Refused(f"{answers.reason} {by_law.reason}")
    summary = extrapolation_summary(by_law, asked, rates)
    return replace(
        summary,
        notes=[*summary.notes, f"No prediction by the network: {answers.reason}"],
        unit=next(run.unit for run in runs if run.samples_per_s),
    )

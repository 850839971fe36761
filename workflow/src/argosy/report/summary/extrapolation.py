"""What a training would take on up to twice the measured size, by its throughputs alone."""

import math

from argosy.report.numbers import count
from argosy.report.summary.costs import NOT_KNOWN, Rates
from argosy.report.summary.prediction import (
    PredictedPoint,
    PredictionSummary,
    Question,
    estimate,
    powers_up_to,
)
from argosy.report.topics.laws import Interval
from argosy.report.topics.prediction.extrapolation import FARTHEST, Extrapolation

_HOUR_S = 3600.0


def extrapolation_summary(
    found: Extrapolation, question: Question, rates: Rates = NOT_KNOWN
) -> PredictionSummary:
    """Return the answers to a question; of more than twice the measured size nothing is said.

    The nodes that are answered are measured ones, powers of two, and those that were asked for.
    """
    farthest = FARTHEST * found.most_nodes
    measured = [ranks // found.ranks_per_node for ranks in found.means]
    efficient, soonest = _answers(found, question, farthest)
    answers = {nodes for nodes in (efficient, soonest) if nodes}
    told = {*powers_up_to(farthest), *measured, *question.nodes, *answers}
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


def _answers(
    found: Extrapolation, question: Question, farthest: int
) -> tuple[int | None, int | None]:
    """Return the most nodes with the efficiency, and those that are soonest within the node-hours.

    All numbers of nodes are tried, by the best estimate.
    """
    base = min(found.means)
    of_rank = found.fit.value_at(base) / base
    rates = {
        nodes: found.fit.value_at(nodes * found.ranks_per_node) for nodes in range(1, farthest + 1)
    }
    efficient = [
        nodes
        for nodes, rate in rates.items()
        if rate / (nodes * found.ranks_per_node * of_rank) >= question.efficiency
    ]
    paid = question.node_hours or 0.0
    within = [
        nodes for nodes, rate in rates.items() if nodes * _hours(question.samples, rate) <= paid
    ]
    return max(efficient, default=None), max(within, key=lambda nodes: rates[nodes], default=None)


def _grounds(found: Extrapolation, farthest: int) -> list[str]:
    base = count(min(found.means), "rank")
    sizes = ", ".join(map(str, sorted(found.means)))
    return [
        f"This is an extrapolation by the universal scalability law, fitted to the throughput of {sizes} "
        f"ranks. It knows no network, and says nothing beyond {count(farthest, 'node')}, {FARTHEST} times "
        f"the largest measured size. Efficiency is relative to {base}."
    ]


def _point(found: Extrapolation, nodes: int, samples: float, rates: Rates) -> PredictedPoint:
    ranks = nodes * found.ranks_per_node
    rate, measured = found.samples_per_s(ranks), found.means.get(ranks)
    # What is paid is the less the faster the samples go, so the ends change places.
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

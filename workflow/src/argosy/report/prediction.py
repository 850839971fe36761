"""What a training would take on more nodes than were measured, for summary.json, page and terminal."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from argosy.analysis.forecast import Forecast
from argosy.analysis.laws import Interval, Refused
from argosy.analysis.prediction import (
    Level,
    NodeUse,
    Prediction,
    fastest_within,
    largest_with_efficiency,
    predict,
)
from argosy.analysis.statistics import Estimate
from argosy.report.costs import NOT_KNOWN, SAMPLES, Rates
from argosy.units import J_PER_KWH

MOST_NODES = 4096
POWERS = tuple(2**power for power in range(MOST_NODES.bit_length()))
EFFICIENCY = 0.8


@dataclass(frozen=True)
class Question:
    """What is to be predicted: on which `nodes`, and for how many `samples`.

    Asked are the most nodes with an `efficiency` against one node, and, with a budget of `node_hours`,
    the nodes with which the samples are done soonest.
    """

    nodes: Sequence[int] = POWERS
    samples: float = SAMPLES
    efficiency: float = EFFICIENCY
    node_hours: float | None = None


@dataclass(frozen=True)
class NetworkSummary:
    """A network's latency of a message and its rate, as fitted to allreduces alone."""

    latency_s: Estimate
    bytes_per_s: Estimate | None


@dataclass(frozen=True)
class PredictedPoint:
    """A training on `nodes`; hours, node-hours, energy, price and carbon are those of all samples.

    `measured_step_s` is None where nothing was measured, `error` is predicted over measured less 1.
    """

    nodes: int
    ranks: int
    step_s: Estimate
    efficiency: Estimate
    samples_per_s: Estimate
    hours: Estimate
    node_hours: Estimate
    energy_kwh: Estimate | None
    price: Estimate | None
    carbon_kg: Estimate | None
    measured_step_s: float | None
    error: float | None


@dataclass(frozen=True)
class PredictionSummary:
    """Where a number of nodes is None there is none; `nodes_within` also when nobody asked.

    `network_factor` is by how much the network is slower in training than alone, `notes` what had to be
    assumed.
    """

    collectives: str
    algorithm: str
    within_node: NetworkSummary | None
    between_nodes: NetworkSummary | None
    network_factor: float
    notes: list[str]
    samples: float
    points: list[PredictedPoint]
    asked_efficiency: float
    nodes_with_efficiency: int | None
    asked_node_hours: float | None
    nodes_within: int | None


def prediction_summary(
    found: Forecast, question: Question, rates: Rates = NOT_KNOWN
) -> PredictionSummary | Refused:
    """The answers to a question."""
    efficient = _nodes(largest_with_efficiency(found.training, question.efficiency, MOST_NODES))
    soonest = _within(found, question)
    answers = {nodes for nodes in (efficient, soonest) if nodes is not None}
    asked = sorted({*question.nodes, *found.measured_s, *answers})
    use = NodeUse(
        power_w=None if found.power_w is None else found.power_w * (rates.pue or 1),
        price_per_hour=rates.price_per_node_hour,
        carbon_g_per_kwh=rates.carbon_g_per_kwh,
    )
    predictions = predict(found.training, [1, *asked], question.samples, use)
    if isinstance(predictions, Refused):
        return predictions
    network = found.communication
    return PredictionSummary(
        collectives=found.collectives,
        algorithm=network.algorithm,
        within_node=_network(network.within_node, network.measurements),
        between_nodes=_network(network.between_nodes, network.measurements),
        network_factor=found.training.network_factor,
        notes=list(found.notes),
        samples=question.samples,
        points=[_point(one, found) for one in predictions if one.nodes in asked],
        asked_efficiency=question.efficiency,
        nodes_with_efficiency=efficient,
        asked_node_hours=question.node_hours,
        nodes_within=soonest,
    )


def _within(found: Forecast, question: Question) -> int | None:
    if question.node_hours is None:
        return None
    return _nodes(fastest_within(found.training, question.node_hours, question.samples, MOST_NODES))


def _nodes(found: int | Refused) -> int | None:
    return None if isinstance(found, Refused) else found


def _network(level: Level | None, measurements: int) -> NetworkSummary | None:
    if level is None:
        return None
    rate = level.bandwidth_bytes_per_s
    # JSON knows no infinity: where no byte takes time that the measurements show, there is no rate.
    bounded = math.isfinite(rate.value)
    high = rate.high if math.isfinite(rate.high) else None
    return NetworkSummary(
        _estimate(level.latency_s, measurements),
        Estimate(measurements, rate.value, rate.low, high) if bounded else None,
    )


def _point(one: Prediction, found: Forecast) -> PredictedPoint:
    measured_s = found.measured_s.get(one.nodes)
    return PredictedPoint(
        nodes=one.nodes,
        ranks=one.ranks,
        step_s=_estimate(one.step_s),
        efficiency=_estimate(one.efficiency),
        samples_per_s=_estimate(one.samples_per_s),
        hours=_estimate(one.hours),
        node_hours=_estimate(one.node_hours),
        energy_kwh=_scaled(one.energy_j, 1 / J_PER_KWH),
        price=_scaled(one.cost, 1.0),
        carbon_kg=_scaled(one.carbon_g, 1e-3),
        measured_step_s=measured_s,
        error=one.step_s.value / measured_s - 1 if measured_s else None,
    )


def _scaled(interval: Interval | None, factor: float) -> Estimate | None:
    if interval is None:
        return None
    return Estimate(0, interval.value * factor, interval.low * factor, interval.high * factor)


def _estimate(interval: Interval, n: int = 0) -> Estimate:
    """`n` is 0 for what was not measured."""
    return Estimate(n, interval.value, interval.low, interval.high)

"""Recommend numbers of nodes, by a calibrated training.

All whole numbers are tried, since efficiency is not monotone: algorithms with rounds favour powers of two.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from argosy.report.statistics.estimates import Estimate
from argosy.report.summary.parts import (
    NOT_KNOWN,
    SAMPLES,
    NetworkSummary,
    PredictedPoint,
    PredictionSummary,
    Rates,
)
from argosy.report.topics.laws.fits import Interval, Refused
from argosy.report.topics.prediction.inputs import KnownTraining
from argosy.report.topics.prediction.network import Level
from argosy.report.topics.prediction.predict import (
    NodeUse,
    Prediction,
    Scatter,
    drawn,
    least_efficiency,
    predict,
)
from argosy.report.topics.prediction.training import (
    Training,
    as_fitted,
    samples_per_step,
    sizes_with_work,
    steps,
    unknown_networks,
)
from argosy_common.units import J_PER_KWH

MOST_NODES = 4096
_ROUNDING = 1e-12


def largest_with_efficiency(
    training: Training, efficiency: float, most: int = MOST_NODES
) -> int | None:
    """Return the largest number of nodes, up to `most`, with this efficiency relative to one node."""
    speeds = _samples_per_node_s(training, most)
    # Tolerate rounding.
    enough = [
        nodes
        for nodes, speed in speeds.items()
        if speed >= efficiency * speeds[1] * (1 - _ROUNDING)
    ]
    return max(enough, default=None)


def largest_surely_with_efficiency(
    training: Training, efficiency: float, scatter: Scatter, likely: int
) -> int:
    """Return the number of nodes, up to `likely`, to which the efficiency's lower end reaches this value.

    It is found by bisection, since efficiency falls with nodes, except near powers of two.
    """
    draws = drawn(training, scatter)
    sure, unsure = 1, likely + 1
    while unsure - sure > 1:
        nodes = (sure + unsure) // 2
        if least_efficiency(training, nodes, draws) >= efficiency:
            sure = nodes
        else:
            unsure = nodes
    return sure


def fastest_within(
    training: Training,
    node_hours: float,
    samples: float,
    most: int = MOST_NODES,
    measured_s: Mapping[int, float] | None = None,
) -> int | None:
    """Return the number of nodes, up to `most`, that trains the samples fastest within `node_hours`.

    Measured steps (`measured_s`, in s by number of nodes) replace predicted ones.
    """
    speeds = _samples_per_node_s(training, most)
    for nodes, seconds in (measured_s or {}).items():
        if nodes in speeds:
            speeds[nodes] = samples_per_step(training, nodes) / (seconds * nodes)
    within = [nodes for nodes, speed in speeds.items() if samples / speed <= node_hours * 3600]
    return max(within, key=lambda nodes: nodes * speeds[nodes], default=None)


def _samples_per_node_s(training: Training, most: int) -> dict[int, float]:
    """Return the throughput per node by number of nodes; empty if no size can be predicted."""
    sizes = sizes_with_work(training, range(1, most + 1))
    if not sizes or unknown_networks(training, sizes):
        return {}
    step_s = steps(training, sizes, as_fitted(training, len(sizes))).step_s
    samples = np.array([samples_per_step(training, nodes) for nodes in sizes])
    return dict(zip(sizes, (samples / (step_s * np.array(sizes))).tolist(), strict=True))


FARTHEST = 4
"""Answers reach up to this many times the largest measured number of nodes."""
EFFICIENCY = 0.8
MODEL_ERROR = 0.1
"""Tolerated relative error of the model; on networks of known latency and bandwidth it was up to 6 %."""


@dataclass(frozen=True)
class Question:
    """A request for predictions and answers.

    Args:
        nodes: Rows of the prediction; without any, powers of two up to the largest answer.
        samples: Number of samples to train.
        efficiency: Asks for the largest number of nodes with this efficiency relative to one node.
        node_hours: A budget; asks for the fastest number of nodes within it.
    """

    nodes: Sequence[int] = ()
    samples: float = SAMPLES
    efficiency: float = EFFICIENCY
    node_hours: float | None = None


def prediction_summary(
    found: KnownTraining, question: Question, rates: Rates = NOT_KNOWN
) -> PredictionSummary | Refused:
    """Predict the sizes of a question and answer it."""
    farthest = FARTHEST * found.most_nodes
    measured = _measured_efficiencies(found)
    misses = _misses(found)
    efficient, surely = _efficient(found, question.efficiency, measured, misses)
    soonest = None if misses else _within(found, question)
    answers = {nodes for nodes in (efficient, surely, soonest) if nodes is not None}
    asked = sorted({*(question.nodes or powers_up_to(farthest)), *found.measured_s, *answers})
    use = NodeUse(
        power_w=None if found.power_w is None else found.power_w * (rates.pue or 1),
        price_per_hour=rates.price_per_node_hour,
        carbon_g_per_kwh=rates.carbon_g_per_kwh,
    )
    predictions = predict(found.training, [1, *asked], question.samples, use, found.scatter)
    if isinstance(predictions, Refused):
        return predictions
    network = found.communication
    return PredictionSummary(
        method="network",
        collectives=found.collectives,
        algorithm=network.algorithm,
        within_node=_network(network.within_node, network.measurements),
        between_nodes=_network(network.between_nodes, network.measurements),
        network_factor=found.training.network_factor,
        notes=list(found.notes),
        samples=question.samples,
        interval_nodes=found.most_nodes,
        farthest_nodes=farthest,
        points=[_point(one, found) for one in predictions if one.nodes in asked],
        asked_efficiency=question.efficiency,
        nodes_with_efficiency=efficient,
        nodes_surely_with_efficiency=surely,
        misses=misses,
        asked_node_hours=question.node_hours,
        nodes_within=soonest,
    )


def powers_up_to(most: int) -> list[int]:
    """Return the powers of two up to `most`."""
    return [2**power for power in range(most.bit_length())]


def _measured_efficiencies(found: KnownTraining) -> dict[int, float]:
    """Return the efficiency of each measured number of nodes, relative to one node."""
    rates = {
        nodes: samples_per_step(found.training, nodes) / seconds / nodes
        for nodes, seconds in found.measured_s.items()
    }
    return {nodes: rate / rates[1] for nodes, rate in sorted(rates.items())}


def _misses(found: KnownTraining) -> list[int]:
    """Return the measured numbers of nodes whose step is outside its interval and MODEL_ERROR."""
    sizes = sorted(found.measured_s)
    predictions = predict(found.training, sizes, 1.0, scatter=found.scatter)
    if found.scatter is None or isinstance(predictions, Refused):
        return []
    return [
        one.nodes
        for one in predictions
        if not one.step_s.low / (1 + MODEL_ERROR)
        <= found.measured_s[one.nodes]
        <= one.step_s.high * (1 + MODEL_ERROR)
    ]


def _efficient(
    found: KnownTraining, wanted: float, measured: Mapping[int, float], misses: Sequence[int]
) -> tuple[int | None, int | None]:
    """Return the largest numbers of nodes with an efficiency: by the best estimate, and by the interval.

    Measurements outrank predictions: answers stop below a measured size with less efficiency, and if the
    prediction misses, only measured sizes count. The interval ends at the largest measured size.
    """
    farthest = FARTHEST * found.most_nodes
    worse = min((nodes for nodes, one in measured.items() if one < wanted), default=farthest + 1)
    enough = max((nodes for nodes in measured if nodes < worse), default=None)
    if misses:
        return enough, None
    likely = largest_with_efficiency(found.training, wanted, worse - 1)
    if likely is None or (enough is not None and enough > likely):
        likely = enough
    if likely is None or found.scatter is None:
        return likely, None
    most = min(likely, found.most_nodes)
    return likely, largest_surely_with_efficiency(found.training, wanted, found.scatter, most)


def _within(found: KnownTraining, question: Question) -> int | None:
    if question.node_hours is None:
        return None
    node_hours, samples = question.node_hours, question.samples
    farthest = FARTHEST * found.most_nodes
    return fastest_within(found.training, node_hours, samples, farthest, found.measured_s)


def _network(level: Level | None, measurements: int) -> NetworkSummary | None:
    if level is None:
        return None
    rate = level.bandwidth_bytes_per_s
    # JSON has no infinity: without measurable time per byte, there is no rate.
    bounded = math.isfinite(rate.value)
    high = rate.high if math.isfinite(rate.high) else None
    if not math.isfinite(level.latency_s.high):
        return NetworkSummary(
            Estimate(measurements, level.latency_s.value),
            Estimate(measurements, rate.value) if bounded else None,
        )
    return NetworkSummary(
        estimate(level.latency_s, n=measurements),
        Estimate(measurements, rate.value, rate.low, high) if bounded else None,
    )


def _point(one: Prediction, found: KnownTraining) -> PredictedPoint:
    measured_s = found.measured_s.get(one.nodes)
    has_interval = found.scatter is not None and one.nodes <= found.most_nodes
    known = estimate if has_interval else _without_interval
    return PredictedPoint(
        nodes=one.nodes,
        ranks=one.ranks,
        step_s=known(one.step_s),
        efficiency=known(one.efficiency),
        samples_per_s=known(one.samples_per_s),
        hours=known(one.hours),
        node_hours=known(one.node_hours),
        energy_kwh=known(one.energy_j, 1 / J_PER_KWH) if one.energy_j else None,
        price=known(one.cost) if one.cost else None,
        carbon_kg=known(one.carbon_g, 1e-3) if one.carbon_g else None,
        measured_samples_per_s=samples_per_step(found.training, one.nodes) / measured_s
        if measured_s
        else None,
        error=one.step_s.value / measured_s - 1 if measured_s else None,
    )


def _without_interval(interval: Interval, factor: float = 1.0) -> Estimate:
    """Return the value without an interval: no size has repeats, or the size was not measured."""
    return Estimate(0, interval.value * factor)


def estimate(interval: Interval, factor: float = 1.0, n: int = 0) -> Estimate:
    """Return an interval times a factor as the estimate of `n` measurements, if it is bounded."""
    low, value, high = (factor * end for end in (interval.low, interval.value, interval.high))
    return Estimate(n, value, low, high) if math.isfinite(high) else Estimate(n, value)

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
    PredictionSummary,
    Rates,
)
from argosy.report.topics.laws.fits import Interval, Refused
from argosy.report.topics.prediction.network import Level
from argosy.report.topics.prediction.predict import drawn, least_efficiency, predict
from argosy.report.topics.prediction.training import (
    KnownTraining,
    Training,
    as_fitted,
    samples_per_step,
    sizes_with_work,
    steps,
    unknown_networks,
)

_ROUNDING = 1e-12


def largest_with_efficiency(speeds: Mapping[int, float], least: float) -> int | None:
    """Return the largest number of nodes with a throughput per node of at least `least`.

    `speeds` are throughputs per node by number of nodes.
    """
    enough = [nodes for nodes, speed in speeds.items() if speed >= least * (1 - _ROUNDING)]
    return max(enough, default=None)


def fastest_within(
    speeds: Mapping[int, float], node_hours: float | None, samples: float
) -> int | None:
    """Return the number of nodes that trains the samples fastest within `node_hours`, if any does."""
    if node_hours is None:
        return None
    within = [nodes for nodes, speed in speeds.items() if samples <= 3600 * node_hours * speed]
    return max(within, key=lambda nodes: nodes * speeds[nodes], default=None)


def predicted_speeds(training: Training, most: int) -> dict[int, float]:
    """Return the throughput per node on up to `most` nodes; empty if no size can be predicted."""
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
    """Predict the sizes of a question and answer it.

    Measurements outrank predictions: answers stop below a measured size with less efficiency. If the
    prediction misses measurements, only measured sizes are answers.
    """
    farthest = FARTHEST * found.most_nodes
    measured = {
        nodes: samples_per_step(found.training, nodes) / seconds / nodes
        for nodes, seconds in sorted(found.measured_s.items())
    }
    speeds = predicted_speeds(found.training, farthest)
    misses = _misses(found)
    efficient = _efficient({} if misses else speeds, measured, question.efficiency)
    surely = None if misses else _surely(found, efficient, question.efficiency)
    known = {nodes: measured.get(nodes, speed) for nodes, speed in speeds.items()}
    soonest = None if misses else fastest_within(known, question.node_hours, question.samples)
    answers = {nodes for nodes in (efficient, surely, soonest) if nodes is not None}
    asked = {*(question.nodes or powers_up_to(farthest)), *measured, *answers}
    points = predict(found, [*asked], question.samples, rates)
    if isinstance(points, Refused):
        return points
    network = found.training.communication
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
        points=points,
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


def _misses(found: KnownTraining) -> list[int]:
    """Return the measured numbers of nodes whose step is outside its interval and MODEL_ERROR."""
    points = predict(found, [*found.measured_s], 1.0)
    return [
        one.nodes
        for one in ([] if isinstance(points, Refused) else points)
        if one.step_s and one.step_s.low is not None and one.step_s.high is not None
        if not one.step_s.low / (1 + MODEL_ERROR)
        <= found.measured_s[one.nodes]
        <= one.step_s.high * (1 + MODEL_ERROR)
    ]


def _efficient(
    speeds: Mapping[int, float], measured: Mapping[int, float], wanted: float
) -> int | None:
    """Return the largest number of nodes with an efficiency, below any measured size with less."""
    worse = min(
        (nodes for nodes, one in measured.items() if one < wanted * measured[1]), default=math.inf
    )
    likely = {nodes: speed for nodes, speed in speeds.items() if nodes < worse}
    found = largest_with_efficiency(likely, wanted * speeds.get(1, math.inf)) or 0
    return max(found, *(nodes for nodes in measured if nodes < worse), 0) or None


def _surely(found: KnownTraining, likely: int | None, wanted: float) -> int | None:
    """Return the largest number of nodes with an efficiency by the lower end of its interval.

    It is at most `likely`, and measured. It is found by bisection, since efficiency falls with nodes,
    except near powers of two.
    """
    if likely is None or found.scatter is None:
        return None
    draws = drawn(found.training, found.scatter)
    sure, unsure = 1, min(likely, found.most_nodes) + 1
    while unsure - sure > 1:
        nodes = (sure + unsure) // 2
        if least_efficiency(found.training, nodes, draws) >= wanted:
            sure = nodes
        else:
            unsure = nodes
    return sure


def _network(level: Level | None, measurements: int) -> NetworkSummary | None:
    if level is None:
        return None
    rate, known = level.bandwidth_bytes_per_s, None
    # JSON has no infinity: without measurable time per byte, there is no rate.
    if math.isfinite(rate.value):
        high = rate.high if math.isfinite(rate.high) else None
        ends = (rate.low, high) if math.isfinite(level.latency_s.high) else (None, None)
        known = Estimate(measurements, rate.value, *ends)
    return NetworkSummary(estimate(level.latency_s, n=measurements), known)


def estimate(interval: Interval, factor: float = 1.0, n: int = 0) -> Estimate:
    """Return an interval times a factor as the estimate of `n` measurements, if it is bounded."""
    low, value, high = (factor * end for end in (interval.low, interval.value, interval.high))
    return Estimate(n, value, low, high) if math.isfinite(high) else Estimate(n, value)

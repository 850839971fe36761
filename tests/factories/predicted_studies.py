"""Studies whose steps on any number of nodes are known, with jobs that differ and runs that scatter."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from allreduce_times import BETWEEN, MESSAGE_BYTES, PLACES, hierarchical_s
from one_step import Allreduce, simulate

from argosy.report.statistics.estimates import Estimate, geometric_mean_estimate, ratio_estimate
from argosy.report.topics.laws.fits import Refused
from argosy.report.topics.prediction.communication import AllreduceTime, fit_communication
from argosy.report.topics.prediction.network import Communication
from argosy.report.topics.prediction.predict import predict
from argosy.report.topics.prediction.step import Horovod, Model, split_layers
from argosy.report.topics.prediction.training import KnownTraining, Scatter, Training, calibrate

JOBS = 3
JOB_SCATTER = 0.02
TIMES_SCATTER = 0.03
RANKS = 4
HOROVOD = Horovod(1e-3, math.inf)
MODEL = Model(
    split_layers({f"layer{number}": 1e7 for number in range(10)}, 0.2),
    forward_s=0.1,
    update_s=0.01,
    data_s=0.02,
    samples=64,
)


@dataclass(frozen=True)
class Predicted:
    """The predicted steps of a study, and whether the intervals cover what is true.

    `steps` are of a run to come, `efficiencies` of runs in the mean, each by number of nodes.
    """

    steps_s: Mapping[int, Estimate]
    steps: Mapping[int, bool]
    efficiencies: Mapping[int, bool]


def predicted_study(
    scatter: float, runs: int, slower: float, sizes: Sequence[int], chance: np.random.Generator
) -> Predicted:
    """Predict `sizes` from so many runs on one node and on two, which scatter by so much.

    In training the network between nodes is `slower` times as slow as alone.
    """
    found = fit_communication(_times(chance))
    assert isinstance(found, Communication)
    steps_s = {
        nodes: (
            true_step_s(nodes, slower) * np.exp(scatter * chance.standard_normal(runs))
        ).tolist()
        for nodes in (1, 2)
    }
    ratio = ratio_estimate(steps_s[1], steps_s[2])
    assert ratio.high is not None
    calibrated = calibrate(
        Training(MODEL, found, RANKS, "weak", HOROVOD),
        {nodes: geometric_mean_estimate(each).mean for nodes, each in steps_s.items()},
        math.log(ratio.high / ratio.mean),
    )
    assert isinstance(calibrated, Training)
    # Intervals end at the largest measured size.
    measured_s = {nodes: true_step_s(nodes, slower) for nodes in sizes}
    known = KnownTraining(calibrated, measured_s, Scatter.of(steps_s))
    predictions = predict(known, sizes, 1e6)
    assert not isinstance(predictions, Refused)
    found_s, steps, efficiencies = {}, {}, {}
    for one in predictions:
        assert one.step_s
        found_s[one.nodes] = one.step_s
        true_s = true_step_s(one.nodes, slower)
        to_come_s = true_s * math.exp(scatter * chance.standard_normal())
        steps[one.nodes] = _holds(one.step_s, to_come_s)
        true_efficiency = true_step_s(1, slower) / true_s
        efficiencies[one.nodes] = _holds(one.efficiency, true_efficiency)
    return Predicted(found_s, steps, efficiencies)


def _holds(found: Estimate, truth: float) -> bool:
    assert found.low is not None and found.high is not None
    return found.low <= truth <= found.high


@cache
def true_step_s(nodes: int, slower: float) -> float:
    """A step of the model on so many nodes."""
    between = (slower * BETWEEN[0], slower * BETWEEN[1])
    latency_s = hierarchical_s(0, nodes, RANKS, between=between)
    byte_s = hierarchical_s(1, nodes, RANKS, between=between) - latency_s
    allreduce = Allreduce(latency_s, byte_s, latency_s / 2)
    return simulate(MODEL, allreduce, HOROVOD).step_s


def _times(chance: np.random.Generator) -> list[AllreduceTime]:
    """Allreduces alone, three jobs at every place."""
    return [
        AllreduceTime(size, nodes, ranks, true_s * effect * _factor(TIMES_SCATTER, chance), job)
        for nodes, ranks in PLACES
        for job in (f"{nodes}-{ranks}-{number}" for number in range(JOBS))
        for effect in [_factor(JOB_SCATTER, chance)]
        for size in MESSAGE_BYTES
        for true_s in [hierarchical_s(size, nodes, ranks)] * 2
    ]


def _factor(scatter: float, chance: np.random.Generator) -> float:
    return math.exp(scatter * chance.standard_normal())

"""Step time, throughput and what a training costs, on numbers of nodes that were not measured."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from argosy.analysis.laws import Interval, Refused
from argosy.analysis.prediction.communication import Allreduce, Communication
from argosy.analysis.prediction.layers import Model, slowed, with_samples
from argosy.analysis.prediction.overlap import Horovod, exposed, gradients_of, messages
from argosy.analysis.prediction.robust import Matrix, Vector
from argosy.analysis.prediction.spread import slowest_of
from argosy.analysis.statistics import CONFIDENCE

DRAWS = 256
SEED = 1
_HOUR_S = 3600.0
_J_PER_KWH = 3.6e6


@dataclass(frozen=True)
class Training:
    """A model on a machine. `scaling` is `strong` or `weak`.

    Weak scaling gives each rank the model's samples of a step, strong scaling those of one node's
    ranks to all ranks. `spread` is that of `slowest_of`. An allreduce of several nodes takes
    `network_factor` times what the communication's fit says.
    """

    model: Model
    communication: Communication
    ranks_per_node: int
    scaling: Literal["strong", "weak"]
    horovod: Horovod = field(default_factory=Horovod)
    spread: float = 0.0
    network_factor: float = 1.0


@dataclass(frozen=True)
class NodeUse:
    """What a node takes while it trains; None where nothing is known."""

    power_w: float | None = None
    price_per_hour: float | None = None
    carbon_g_per_kwh: float | None = None


@dataclass(frozen=True)
class Prediction:
    """A training on `nodes`; what takes, costs or emits is for all of its samples.

    `efficiency` is the throughput over the base's, over how many times the nodes there are. The
    95 % intervals tell how uncertain the fit of the communication is, and nothing else.
    """

    nodes: int
    ranks: int
    samples_per_step: float
    step_s: Interval
    exposed_s: Interval
    samples_per_s: Interval
    efficiency: Interval
    hours: Interval
    node_hours: Interval
    energy_j: Interval | None
    cost: Interval | None
    carbon_g: Interval | None


def predict(
    training: Training, nodes: Sequence[int], samples: float, node_use: NodeUse | None = None
) -> list[Prediction] | Refused:
    """A training of `samples` samples on each number of `nodes`, smallest first, which is the base.

    Numbers of nodes at which a rank would have less than a sample in a step are left out.
    """
    sizes = sizes_with_work(training, nodes)
    if not sizes:
        return Refused("There is no number of nodes on which every rank has a sample in a step.")
    unknown = unknown_networks(training, sizes)
    if unknown:
        return unknown
    communication = training.communication
    rows = np.vstack([communication.coefficients, communication.drawn(DRAWS, SEED)])
    times = [_times(training, size, rows) for size in sizes]
    base = times[0].node_s_per_sample(training)
    return [_prediction(training, time, base, samples, node_use or NodeUse()) for time in times]


def sizes_with_work(training: Training, nodes: Sequence[int]) -> list[int]:
    """Distinct numbers of nodes, smallest first, on which every rank has a sample in a step."""
    return [size for size in sorted(set(nodes)) if size >= 1 and _samples(training, size) >= 1]


def unknown_networks(training: Training, sizes: Sequence[int]) -> Refused | None:
    """Why there is no prediction, where a network is used that was not measured."""
    if all(training.communication.knows(size, training.ranks_per_node) for size in sizes):
        return None
    return Refused("A network that the ranks use was not measured: within a node, or between.")


def model_at(training: Training, nodes: int) -> Model:
    """The slowest rank's own work on so many nodes."""
    model = with_samples(training.model, _samples(training, nodes))
    slow = slowest_of(nodes * training.ranks_per_node, training.spread)
    return slowed(model, slow)


def allreduce_at(training: Training, nodes: int) -> Allreduce:
    """The allreduce over so many nodes, by the fit's values."""
    return _allreduces(training, nodes, training.communication.coefficients[None, :])[0]


def step_s(training: Training, nodes: int) -> float:
    """Seconds of a step by the fit's values, without intervals."""
    model = model_at(training, nodes)
    return model.own_s + _exposed(training, nodes, model, [allreduce_at(training, nodes)])[0]


def samples_per_step(training: Training, nodes: int) -> float:
    """Of all ranks together."""
    return _samples(training, nodes) * nodes * training.ranks_per_node


@dataclass(frozen=True)
class _Times:
    """Steps by the fit's values, then by each draw of them."""

    nodes: int
    step_s: Vector
    exposed_s: Vector

    def node_s_per_sample(self, training: Training) -> Vector:
        return self.nodes * self.step_s / samples_per_step(training, self.nodes)


def _samples(training: Training, nodes: int) -> float:
    """A rank's samples in a step."""
    return training.model.samples / (nodes if training.scaling == "strong" else 1)


def _times(training: Training, nodes: int, rows: Matrix) -> _Times:
    model = model_at(training, nodes)
    lines = _allreduces(training, nodes, rows)
    exposed_s = np.array(_exposed(training, nodes, model, lines))
    return _Times(nodes, model.own_s + exposed_s, exposed_s)


def _allreduces(training: Training, nodes: int, rows: Matrix) -> list[Allreduce]:
    lines = training.communication.allreduces(nodes, training.ranks_per_node, rows)
    if nodes == 1:
        return lines
    return [line.slowed(training.network_factor) for line in lines]


def _exposed(
    training: Training, nodes: int, model: Model, lines: Sequence[Allreduce]
) -> list[float]:
    if nodes * training.ranks_per_node == 1:
        return [0.0] * len(lines)
    gradients = gradients_of(model)
    return [exposed(model, messages(gradients, line, training.horovod)) for line in lines]


def _prediction(
    training: Training, times: _Times, base: Vector, samples: float, use: NodeUse
) -> Prediction:
    node_s_per_sample = times.node_s_per_sample(training)
    node_hours = node_s_per_sample * samples / _HOUR_S
    return Prediction(
        nodes=times.nodes,
        ranks=times.nodes * training.ranks_per_node,
        samples_per_step=samples_per_step(training, times.nodes),
        step_s=_interval(times.step_s),
        exposed_s=_interval(times.exposed_s),
        samples_per_s=_interval(times.nodes / node_s_per_sample),
        efficiency=_interval(base / node_s_per_sample),
        hours=_interval(node_hours / times.nodes),
        node_hours=_interval(node_hours),
        energy_j=_times_known(node_hours * _HOUR_S, use.power_w),
        cost=_times_known(node_hours, use.price_per_hour),
        carbon_g=_carbon(node_hours, use),
    )


def _carbon(node_hours: Vector, use: NodeUse) -> Interval | None:
    if use.power_w is None:
        return None
    return _times_known(node_hours * _HOUR_S * use.power_w / _J_PER_KWH, use.carbon_g_per_kwh)


def _times_known(values: Vector, factor: float | None) -> Interval | None:
    return None if factor is None else _interval(values * factor)


def _interval(values: Vector) -> Interval:
    """The first is the estimate; it may lie beside draws that are cut off at no latency."""
    value, drawn = float(values[0]), values[1:]
    ends = [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]
    low, high = np.quantile(drawn, ends, method="median_unbiased").tolist()
    return Interval(value, min(value, low), max(value, high))

"""A training on any number of nodes: its work, its allreduces and its step."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from argosy.analysis.laws import Refused
from argosy.analysis.log_least_squares import Matrix, Vector
from argosy.analysis.prediction.exposed import exposed_seconds
from argosy.analysis.prediction.layers import Model, slowed, with_samples
from argosy.analysis.prediction.networks import Allreduce, Communication, Lines
from argosy.analysis.prediction.overlap import Horovod, gradients_of
from argosy.analysis.prediction.spread import slowest_of


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
class Unknowns:
    """What a prediction does not know, a value for each of many steps.

    `coefficients` are those of the communication, shape (steps, 4); all of a rank's own work takes `own`
    times as long as the training says, and an allreduce of several nodes `network` times as long as the
    coefficients say.
    """

    coefficients: Matrix
    own: Vector
    network: Vector


@dataclass(frozen=True)
class Steps:
    """Seconds of each of many steps, and those that communication adds to the own work."""

    step_s: Vector
    exposed_s: Vector


def sizes_with_work(training: Training, nodes: Sequence[int]) -> list[int]:
    """Distinct numbers of nodes, smallest first, on which every rank has a sample in a step."""
    return [size for size in sorted(set(nodes)) if size >= 1 and _samples(training, size) >= 1]


def unknown_networks(training: Training, sizes: Sequence[int]) -> Refused | None:
    """Return why there is no prediction, where a network is used that was not measured."""
    if all(training.communication.knows(size, training.ranks_per_node) for size in sizes):
        return None
    return Refused("A network that the ranks use was not measured: within a node, or between.")


def model_at(training: Training, nodes: int) -> Model:
    """Return the slowest rank's own work on so many nodes."""
    model = with_samples(training.model, _samples(training, nodes))
    slow = slowest_of(nodes * training.ranks_per_node, training.spread)
    return slowed(model, slow)


def allreduce_at(training: Training, nodes: int) -> Allreduce:
    """Return the allreduce over so many nodes, by the fit's values."""
    found = training.communication.allreduce(nodes, training.ranks_per_node)
    return found if nodes == 1 else found.slowed(training.network_factor)


def as_fitted(training: Training, count: int = 1) -> Unknowns:
    """Return what the fit and the calibration say, for `count` steps."""
    return Unknowns(
        np.tile(training.communication.coefficients, (count, 1)),
        np.ones(count),
        np.full(count, training.network_factor),
    )


def step_s(training: Training, nodes: int) -> float:
    """Return seconds of a step by the fit's values, without intervals."""
    return float(steps_at(training, nodes, as_fitted(training)).step_s[0])


def steps_at(training: Training, nodes: int, unknowns: Unknowns) -> Steps:
    """Return a step on so many nodes, for each row of what is not known."""
    return steps(training, [nodes] * unknowns.own.size, unknowns)


def steps(training: Training, nodes: Sequence[int], unknowns: Unknowns) -> Steps:
    """Return the step on each of so many `nodes`, with the row of what is not known at the same place."""
    own_s, slower = (unknowns.own * column for column in _work(training, nodes))
    found = training.communication.lines(nodes, training.ranks_per_node, unknowns.coefficients)
    several = np.array(nodes) > 1
    network = np.where(several, unknowns.network, 1.0)
    lines = Lines(found.latency_s * network, found.s_per_byte * network)
    model = training.model
    exposed_s = exposed_seconds(
        gradients_of(model), model.backward_s, slower, lines, training.horovod
    )
    # A single rank has nobody to wait for, no cycle either.
    if training.ranks_per_node == 1:
        exposed_s = np.where(several, exposed_s, 0.0)
    return Steps(own_s + exposed_s, exposed_s)


def samples_per_step(training: Training, nodes: int) -> float:
    """Return the samples of all ranks in a step."""
    return _samples(training, nodes) * nodes * training.ranks_per_node


def _work(training: Training, nodes: Sequence[int]) -> tuple[Vector, Vector]:
    """Return, for each of `nodes`, the slowest rank's own seconds and how much slower gradients come.

    As `model_at`, without the layers of each.
    """
    sizes, places = np.unique(np.array(nodes), return_inverse=True)
    model = training.model
    shares = np.array([_samples(training, size) / model.samples for size in sizes.tolist()])
    ranks = (sizes * training.ranks_per_node).tolist()
    slow = np.array([slowest_of(count, training.spread) for count in ranks])
    own_s = slow * (shares * (model.own_s - model.update_s) + model.update_s)
    return own_s[places], (slow * shares)[places]


def _samples(training: Training, nodes: int) -> float:
    """Return a rank's samples in a step."""
    return training.model.samples / (nodes if training.scaling == "strong" else 1)

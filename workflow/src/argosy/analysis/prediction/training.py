"""A training on any number of nodes: its work, its allreduces and its step."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from argosy.analysis.laws import Refused
from argosy.analysis.prediction.layers import Model, slowed, with_samples
from argosy.analysis.prediction.networks import Allreduce, Communication
from argosy.analysis.prediction.overlap import Horovod, exposed, gradients_of, messages
from argosy.analysis.prediction.robust import Matrix
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
    return allreduces_at(training, nodes, training.communication.coefficients[None, :])[0]


def step_s(training: Training, nodes: int) -> float:
    """Seconds of a step by the fit's values, without intervals."""
    model = model_at(training, nodes)
    return model.own_s + exposed_at(training, nodes, model, [allreduce_at(training, nodes)])[0]


def samples_per_step(training: Training, nodes: int) -> float:
    """Of all ranks together."""
    return _samples(training, nodes) * nodes * training.ranks_per_node


def allreduces_at(training: Training, nodes: int, rows: Matrix) -> list[Allreduce]:
    """The allreduces over so many nodes, for each row of coefficients, shape (rows, 4)."""
    lines = training.communication.allreduces(nodes, training.ranks_per_node, rows)
    if nodes == 1:
        return lines
    return [line.slowed(training.network_factor) for line in lines]


def exposed_at(
    training: Training, nodes: int, model: Model, lines: Sequence[Allreduce]
) -> list[float]:
    """Exposed seconds of the `model_at` so many nodes with each of the allreduces."""
    if nodes * training.ranks_per_node == 1:
        return [0.0] * len(lines)
    gradients = gradients_of(model)
    return [exposed(model, messages(gradients, line, training.horovod)) for line in lines]


def _samples(training: Training, nodes: int) -> float:
    """A rank's samples in a step."""
    return training.model.samples / (nodes if training.scaling == "strong" else 1)

"""Model of a step of synchronous training, in which communication overlaps the backward pass.

The gradient of each layer is sent as soon as its part of the backward pass ends: wait-free back-propagation
(Shi, Wang, Chu and Li, "A DAG Model of Synchronous Stochastic Gradient Descent in Distributed Deep
Learning", arXiv:1805.03812; Shi, Chu and Li, "MG-WFBP: Efficient Data Communication for Distributed
Synchronous SGD Algorithms", INFOCOM 2019).

Horovod works in cycles. A cycle begins when a gradient is ready, the cycle time has passed since the last
cycle began, and the last cycle's allreduces are over. This is Argosy's Horovod; stock Horovod also has
cycles without gradients, so the first gradient waits for half the cycle time on average. A cycle negotiates
which gradients are ready on all ranks, by an allreduce of one bit per gradient (`CrossRankBitwiseAnd` of
Horovod's controller). Then it fuses them in order up to the threshold, and runs one allreduce after another
(Sergeev and Del Balso, arXiv:1802.05799; Horovod's documentation, "Tensor Fusion"). The optimizer's update
waits for the last gradient.

The functions compute arrays of steps, cycle by cycle.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from argosy.report.statistics.least_squares import Vector
from argosy.report.topics.prediction.network import Lines

BEFORE_FORWARD = ("data", "h2d", "other")


@dataclass(frozen=True)
class Layer:
    """A layer: the size of its gradient, and the time of its part of the backward pass."""

    name: str
    parameters_bytes: float
    backward_s: float


@dataclass(frozen=True)
class Model:
    """A rank's own work in a step of `samples` samples, without communication.

    `layers` are in the order of back-propagation, the model's last layer first. `data_s` is the time before
    the forward pass.
    """

    layers: tuple[Layer, ...]
    forward_s: float
    update_s: float
    data_s: float
    samples: float

    @property
    def backward_s(self) -> float:
        """Time of the backward pass of all layers."""
        return sum(layer.backward_s for layer in self.layers)

    @property
    def own_s(self) -> float:
        """Time of the step without communication."""
        return self.data_s + self.forward_s + self.backward_s + self.update_s


def split_layers(parameters_bytes: Mapping[str, float], backward_s: float) -> tuple[Layer, ...]:
    """Split a measured backward pass among layers in proportion to their parameters.

    This is plausible for dense layers. `parameters_bytes` is in the order of back-propagation.

    Raises:
        ValueError: There are no parameters.
    """
    return split_by(parameters_bytes, backward_s, list(parameters_bytes.values()))


def split_by(
    parameters_bytes: Mapping[str, float], backward_s: float, weights: Sequence[float]
) -> tuple[Layer, ...]:
    """Split a measured backward pass among layers in proportion to `weights`, such as their operations.

    Raises:
        ValueError: There is not one weight per layer, one is negative, or their sum is 0.
    """
    whole = sum(weights)
    if whole <= 0 or min(weights) < 0:
        raise ValueError("the time of layers is split by weights that are positive together")
    named = zip(parameters_bytes.items(), weights, strict=True)
    return tuple(Layer(name, size, backward_s * part / whole) for (name, size), part in named)


def model_of_phases(
    layers: Sequence[Layer], phases_s: Mapping[str, float], samples: float
) -> Model:
    """Return the model with measured mean phases (`topics.phases`), for instance of one node.

    Times of layers are scaled to the phase `backward`; the phase `communication` is ignored.

    Raises:
        ValueError: The layers take no time.
    """
    weights = [layer.backward_s for layer in layers]
    sizes = {layer.name: layer.parameters_bytes for layer in layers}
    return Model(
        layers=split_by(sizes, phases_s.get("backward", 0.0), weights),
        forward_s=phases_s.get("forward", 0.0),
        update_s=phases_s.get("update", 0.0),
        data_s=sum(phases_s.get(name, 0.0) for name in BEFORE_FORWARD),
        samples=samples,
    )


def slowed(model: Model, factor: float) -> Model:
    """Multiply the time of all own work of a model by a factor."""
    if factor == 1:
        return model
    layers = [
        Layer(layer.name, layer.parameters_bytes, layer.backward_s * factor)
        for layer in model.layers
    ]
    return replace(
        model,
        layers=tuple(layers),
        forward_s=model.forward_s * factor,
        update_s=model.update_s * factor,
        data_s=model.data_s * factor,
    )


# Share of the cycle time within which a gradient counts as ready at the start of a cycle.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Horovod:
    """HOROVOD_CYCLE_TIME in seconds and HOROVOD_FUSION_THRESHOLD; defaults since Horovod 0.21."""

    cycle_s: float = 1e-3
    fusion_threshold_bytes: float = 128 * 2**20


@dataclass(frozen=True)
class Gradients:
    """Gradients of layers with parameters: ready times, in seconds of the backward pass, and sizes.

    `bytes_before` has the total bytes before each gradient, and the sum.
    """

    names: tuple[str, ...]
    ready_s: tuple[float, ...]
    bytes_before: tuple[float, ...]


def gradients_of(model: Model) -> Gradients:
    """Return the gradients of a model's layers."""
    ready = accumulate(layer.backward_s for layer in model.layers)
    known = [
        (layer, at_s)
        for layer, at_s in zip(model.layers, ready, strict=True)
        if layer.parameters_bytes > 0
    ]
    sizes = (layer.parameters_bytes for layer, _ in known)
    return Gradients(
        names=tuple(layer.name for layer, _ in known),
        ready_s=tuple(at_s for _, at_s in known),
        bytes_before=tuple(accumulate(sizes, initial=0.0)),
    )


_Places = NDArray[np.int64]


def exposed_seconds(
    gradients: Gradients, backward_s: float, slower: Vector, lines: Lines, horovod: Horovod
) -> Vector:
    """Return seconds from the end of the backward pass to the end of the last allreduce, for each step.

    Args:
        backward_s: Time of the backward pass.
        slower: Factor of the backward pass and ready times in each step, shape (steps,).
        lines: Times of allreduces in each step.
    """
    if not gradients.ready_s:
        return np.zeros_like(slower)
    end_s = _ends(gradients, slower, lines, horovod)
    return np.maximum(0.0, end_s - backward_s * slower)


def _ends(gradients: Gradients, slower: Vector, lines: Lines, horovod: Horovod) -> Vector:
    """Return the end of the last allreduce of each step, in seconds from the start of the backward pass."""
    ready_s, bytes_before = np.array(gradients.ready_s), np.array(gradients.bytes_before)
    negotiation_s = lines.negotiation_share * lines.latency_s
    following = _following(gradients, horovod)
    rounding = ROUNDING * horovod.cycle_s
    begin_s, end_s = np.zeros_like(slower), np.zeros_like(slower)
    left = np.arange(slower.size)
    first = np.zeros(slower.size, dtype=np.int64)
    while left.size:
        factor = slower[left]
        begin = np.maximum(ready_s[first] * factor, begin_s)
        ready = np.searchsorted(ready_s, (begin + rounding) / factor, side="right")
        after = np.maximum(ready, first + 1)
        sent_s = _messages(first, after, following) * lines.latency_s[left]
        sent_s += (bytes_before[after] - bytes_before[first]) * lines.s_per_byte[left]
        end = begin + negotiation_s[left] + sent_s
        end_s[left] = end
        more = after < ready_s.size
        left, first = left[more], after[more]
        begin_s = np.maximum(begin + horovod.cycle_s, end)[more]
    return end_s


def _following(gradients: Gradients, horovod: Horovod) -> _Places:
    """Return, for each gradient, the first later one that does not fit into the same message."""
    sums, threshold = gradients.bytes_before, horovod.fusion_threshold_bytes
    found = [
        max(bisect_right(sums, sums[place] + threshold) - 1, place + 1)
        for place in range(len(gradients.ready_s))
    ]
    return np.array([*found, len(found)])


def _messages(first: _Places, after: _Places, following: _Places) -> Vector:
    """Count the messages of the gradients from `first` to `after`, exclusive."""
    count = np.zeros(first.size)
    place = first
    while (place < after).any():
        count += place < after
        place = np.where(place < after, following[place], place)
    return count

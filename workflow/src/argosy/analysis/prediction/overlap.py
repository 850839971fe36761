"""One step of synchronous training in which gradients are sent while others are computed.

The gradient of each layer is ready when its part of the backward pass is over, and is sent from
then on: wait-free back-propagation (Shi, Wang, Chu and Li, "A DAG Model of Synchronous Stochastic
Gradient Descent in Distributed Deep Learning", arXiv:1805.03812; Shi, Chu and Li, "MG-WFBP:
Efficient Data Communication for Distributed Synchronous SGD Algorithms", INFOCOM 2019). Horovod
works in cycles. Each begins when a gradient is ready and the cycle time has gone by since the last one
began, and not before that one's allreduces are over (Argosy's Horovod; as released, it has cycles without
gradients, too, so the first one waits for half the cycle time on average). It first finds out which
gradients are ready on all ranks, by an allreduce of a bit for each (`CrossRankBitwiseAnd` of Horovod's
controller); then it fuses them in order up to the threshold, and carries out one allreduce after another
(Sergeev and Del Balso, arXiv:1802.05799; Horovod's documentation, "Tensor Fusion"). The optimizer's
update waits for the last gradient.
"""

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from argosy.analysis.prediction.layers import Model
from argosy.analysis.prediction.networks import Allreduce

# A gradient that is ready with the cycle's begin, but for rounding, is in it.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Horovod:
    """HOROVOD_CYCLE_TIME in seconds and HOROVOD_FUSION_THRESHOLD; defaults since Horovod 0.21."""

    cycle_s: float = 1e-3
    fusion_threshold_bytes: float = 128 * 2**20


@dataclass(frozen=True)
class Gradients:
    """When each gradient is ready, in seconds of the backward pass, and the bytes up to each.

    Layers without parameters have none. Bytes begin with 0 before the first.
    """

    names: tuple[str, ...]
    ready_s: tuple[float, ...]
    bytes_before: tuple[float, ...]


class Message(NamedTuple):
    """Gradients `first` up to `after`, fused; times are in seconds of the backward pass."""

    first: int
    after: int
    begin_s: float
    end_s: float


@dataclass(frozen=True)
class Span:
    """A bar of the timeline, in seconds of the step; `layers` are those of an allreduce."""

    name: str
    begin_s: float
    end_s: float
    layers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Step:
    """A step; `exposed_s` is what communication adds to the rank's own work, waits included."""

    step_s: float
    exposed_s: float
    timeline: tuple[Span, ...]


def simulate(model: Model, allreduce: Allreduce, horovod: Horovod) -> Step:
    """Return one step of the slowest rank, with the allreduce over all ranks."""
    gradients = gradients_of(model)
    sent = _messages(gradients, allreduce, horovod)
    exposed_s = max(0.0, sent[-1].end_s - model.backward_s) if sent else 0.0
    begin_s = model.data_s + model.forward_s
    backward_end_s = begin_s + model.backward_s
    step_s = model.own_s + exposed_s
    timeline = (
        Span("data", 0.0, model.data_s),
        Span("forward", model.data_s, begin_s),
        Span("backward", begin_s, backward_end_s),
        *(_span(message, begin_s, gradients) for message in sent),
        Span("update", backward_end_s + exposed_s, step_s),
    )
    return Step(step_s, exposed_s, timeline)


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


def _messages(gradients: Gradients, allreduce: Allreduce, horovod: Horovod) -> list[Message]:
    """Return all allreduces of a step, in order."""
    sent: list[Message] = []
    begin_s, first = 0.0, 0
    while first < len(gradients.ready_s):
        begin_s = max(gradients.ready_s[first], begin_s)
        free_s = begin_s + allreduce.negotiation_s
        ready = bisect_right(gradients.ready_s, begin_s + ROUNDING * horovod.cycle_s)
        for before, after in _fused(gradients, first, max(ready, first + 1), horovod):
            data_bytes = gradients.bytes_before[after] - gradients.bytes_before[before]
            end_s = free_s + allreduce.seconds(data_bytes)
            sent.append(Message(before, after, free_s, end_s))
            free_s = end_s
        first = sent[-1].after
        begin_s = max(begin_s + horovod.cycle_s, free_s)
    return sent


def _fused(gradients: Gradients, first: int, after: int, horovod: Horovod) -> list[tuple[int, int]]:
    """Gradients that are ready, in groups within the threshold; a larger one goes alone."""
    groups, sums = [], gradients.bytes_before
    while first < after:
        within = bisect_right(sums, sums[first] + horovod.fusion_threshold_bytes) - 1
        groups.append((first, min(max(within, first + 1), after)))
        first = groups[-1][1]
    return groups


def _span(message: Message, begin_s: float, gradients: Gradients) -> Span:
    names = gradients.names[message.first : message.after]
    return Span("allreduce", begin_s + message.begin_s, begin_s + message.end_s, names)

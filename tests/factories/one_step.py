"""One step of a training, allreduce by allreduce: what predictions of many steps at once are held to.

The rules are those of `argosy.report.topics.prediction.step`.
"""

from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import NamedTuple

from argosy.report.topics.prediction.network import Communication
from argosy.report.topics.prediction.step import (
    ROUNDING,
    Gradients,
    Horovod,
    Model,
    gradients_of,
    slowed,
)
from argosy.report.topics.prediction.training import Training, slowest_of


@dataclass(frozen=True)
class Allreduce:
    """The time of an allreduce over given ranks, as a line over its bytes.

    `negotiation_s` is what a cycle of Horovod takes to find out what is ready on all ranks.
    """

    latency_s: float
    s_per_byte: float
    negotiation_s: float = 0.0

    def seconds(self, data_bytes: float) -> float:
        """Return the time of an allreduce of `data_bytes` on each rank."""
        return self.latency_s + self.s_per_byte * data_bytes

    def slowed(self, factor: float) -> "Allreduce":
        """Return one that takes `factor` times as long."""
        return Allreduce(
            self.latency_s * factor, self.s_per_byte * factor, self.negotiation_s * factor
        )


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
    sent = _sent_messages(gradients, allreduce, horovod)
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


def _sent_messages(gradients: Gradients, allreduce: Allreduce, horovod: Horovod) -> list[Message]:
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


def allreduce_of(found: Communication, nodes: int, ranks_per_node: int) -> Allreduce:
    """The allreduce over so many nodes, by the fit's values."""
    line = found.lines([nodes], ranks_per_node, found.coefficients[None, :])
    latency_s = float(line.latency_s[0])
    return Allreduce(latency_s, float(line.s_per_byte[0]), line.negotiation_share * latency_s)


def allreduce_at(training: Training, nodes: int) -> Allreduce:
    """That of a training, whose network may be slower than alone."""
    found = allreduce_of(training.communication, nodes, training.ranks_per_node)
    return found if nodes == 1 else found.slowed(training.network_factor)


def model_at(training: Training, nodes: int) -> Model:
    """The slowest rank's own work: the update takes as long for any number of samples."""
    model = training.model
    share = 1 / nodes if training.scaling == "strong" else 1.0
    divided = replace(slowed(model, share), update_s=model.update_s, samples=share * model.samples)
    return slowed(divided, slowest_of(nodes * training.ranks_per_node, training.spread))

"""Step time, throughput and what a training costs, on numbers of nodes that were not measured."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from argosy.analysis.laws import Interval, Refused
from argosy.analysis.log_least_squares import Vector
from argosy.analysis.prediction.draws import DRAWS, EXPOSED_SD, OWN_SD, Draws, Scatter, drawn
from argosy.analysis.prediction.training import (
    Training,
    samples_per_step,
    sizes_with_work,
    steps_at,
    unknown_networks,
)
from argosy.analysis.statistics import CONFIDENCE
from argosy.units import J_PER_KWH

_HOUR_S = 3600.0


@dataclass(frozen=True)
class NodeUse:
    """What a node takes while it trains; None where nothing is known."""

    power_w: float | None = None
    price_per_hour: float | None = None
    carbon_g_per_kwh: float | None = None


@dataclass(frozen=True)
class Prediction:
    """A training on `nodes`; what takes, costs or emits is for all of its samples.

    `efficiency` is the throughput over the base's, over how many times the nodes there are. Where it is
    known how runs scatter, the 95 % interval of the efficiency is that of runs in the mean, and the others
    are those of a run to come; else all tell how uncertain the fit of the communication is, and nothing
    else.
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
    training: Training,
    nodes: Sequence[int],
    samples: float,
    node_use: NodeUse | None = None,
    scatter: Scatter | None = None,
) -> list[Prediction] | Refused:
    """Return a training of `samples` samples on each number of `nodes`, smallest first, which is the base.

    Numbers of nodes at which a rank would have less than a sample in a step are left out. `scatter` is of
    the runs by which the training was calibrated.
    """
    sizes = sizes_with_work(training, nodes)
    if not sizes:
        return Refused("There is no number of nodes on which every rank has a sample in a step.")
    unknown = unknown_networks(training, sizes)
    if unknown:
        return unknown
    draws = drawn(training, scatter)
    times = [_times(training, size, draws) for size in sizes]
    base = times[0].node_s_per_sample(training)
    use = node_use or NodeUse()
    return [_prediction(training, time, base, samples, use) for time in times]


def least_efficiency(training: Training, nodes: int, draws: Draws) -> float:
    """Return the lower end of the interval of the efficiency against one node."""
    one, several = (_times(training, size, draws) for size in (1, nodes))
    efficiency = one.node_s_per_sample(training) / several.node_s_per_sample(training)
    return _interval(efficiency).low


@dataclass(frozen=True)
class _Times:
    """Steps by the fit's values, then by each draw, of runs in the mean; `to_come` are those of a run."""

    nodes: int
    step_s: Vector
    exposed_s: Vector
    to_come: Vector

    def node_s_per_sample(self, training: Training) -> Vector:
        return self.nodes * self.step_s / samples_per_step(training, self.nodes)


def _times(training: Training, nodes: int, draws: Draws) -> _Times:
    found = steps_at(training, nodes, draws.unknowns)
    # One node's step is as measured; on more the model may be off.
    error = draws.of_model * (nodes > 1)
    exposed_s = found.exposed_s * np.exp(EXPOSED_SD * error)
    own_s = (found.step_s - found.exposed_s) * np.exp(OWN_SD * error)
    return _Times(nodes, own_s + exposed_s, exposed_s, draws.to_come)


def _prediction(
    training: Training, times: _Times, base: Vector, samples: float, use: NodeUse
) -> Prediction:
    mean = times.node_s_per_sample(training)
    run = mean * times.to_come
    node_hours = run * samples / _HOUR_S
    return Prediction(
        nodes=times.nodes,
        ranks=times.nodes * training.ranks_per_node,
        samples_per_step=samples_per_step(training, times.nodes),
        step_s=_interval(times.step_s * times.to_come),
        exposed_s=_interval(times.exposed_s * times.to_come),
        samples_per_s=_interval(times.nodes / run),
        efficiency=_interval(base / mean),
        hours=_interval(node_hours / times.nodes),
        node_hours=_interval(node_hours),
        energy_j=_times_known(node_hours * _HOUR_S, use.power_w),
        cost=_times_known(node_hours, use.price_per_hour),
        carbon_g=_carbon(node_hours, use),
    )


def _carbon(node_hours: Vector, use: NodeUse) -> Interval | None:
    if use.power_w is None:
        return None
    return _times_known(node_hours * _HOUR_S * use.power_w / J_PER_KWH, use.carbon_g_per_kwh)


def _times_known(values: Vector, factor: float | None) -> Interval | None:
    return None if factor is None else _interval(values * factor)


def _interval(values: Vector) -> Interval:
    """Return the values, the estimate first; it may lie beside draws that are cut off at no latency."""
    value, groups = float(values[0]), values[1:].reshape(-1, DRAWS)
    low, high = ends_over(groups[0], groups[-1])
    return Interval(value, min(value, low), max(value, high))


def ends_over(group: Vector, other: Vector) -> tuple[float, float]:
    """Return the ends of the least interval that reaches over both groups of draws, of which one is true.

    Each tail of the `group` is half of what it may leave out. The `other` leaves out as much in all: where
    an end lies beyond its own already, its other end may leave out the rest.
    """
    left_out = 1 - CONFIDENCE
    low, high = _quantile(group, left_out / 2), _quantile(group, 1 - left_out / 2)
    below, above = float((other < low).mean()), float((other > high).mean())
    if below + above <= left_out:
        return low, high
    half = left_out / 2
    return (
        min(low, _quantile(other, left_out - min(above, half))),
        max(high, _quantile(other, 1 - left_out + min(below, half))),
    )


def _quantile(values: Vector, share: float) -> float:
    return float(np.quantile(values, share, method="median_unbiased"))

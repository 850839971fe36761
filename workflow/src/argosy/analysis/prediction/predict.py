"""Step time, throughput and what a training costs, on numbers of nodes that were not measured."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from argosy.analysis.laws import Interval, Refused
from argosy.analysis.prediction.robust import Matrix, Vector
from argosy.analysis.prediction.training import (
    Training,
    allreduces_at,
    exposed_at,
    model_at,
    samples_per_step,
    sizes_with_work,
    unknown_networks,
)
from argosy.analysis.statistics import CONFIDENCE
from argosy.units import J_PER_KWH

DRAWS = 256
SEED = 1
_HOUR_S = 3600.0
# Two runs may scatter so much that nothing is known: by e^50 is as good as by any factor.
_FARTHEST = 50.0


@dataclass(frozen=True)
class NodeUse:
    """What a node takes while it trains; None where nothing is known."""

    power_w: float | None = None
    price_per_hour: float | None = None
    carbon_g_per_kwh: float | None = None


@dataclass(frozen=True)
class Scatter:
    """How runs scatter: the standard deviation of the logarithm of a run's step, by `freedom` degrees.

    `runs` are those of the base, whose mean the prediction begins with.
    """

    sd: float
    freedom: int
    runs: int

    @classmethod
    def of(cls, sizes: Sequence[Sequence[float]]) -> "Scatter | None":
        """Of the rates or times of all sizes' runs around their size's mean, the base first.

        None where no size has two runs.
        """
        logs = [np.log(runs) for runs in sizes if runs]
        freedom = sum(one.size - 1 for one in logs)
        if not freedom:
            return None
        squares = sum(float(((one - one.mean()) ** 2).sum()) for one in logs)
        return cls(math.sqrt(squares / freedom), freedom, max(len(sizes[0]), 1))


@dataclass(frozen=True)
class Prediction:
    """A training on `nodes`; what takes, costs or emits is for all of its samples.

    `efficiency` is the throughput over the base's, over how many times the nodes there are. The 95 %
    intervals are those of a run to come, where it is known how runs scatter; else they tell how uncertain
    the fit of the communication is, and nothing else.
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
    """A training of `samples` samples on each number of `nodes`, smallest first, which is the base.

    Numbers of nodes at which a rank would have less than a sample in a step are left out. Each draw of the
    communication's coefficients has a base and a run to come that scatter as runs do.
    """
    sizes = sizes_with_work(training, nodes)
    if not sizes:
        return Refused("There is no number of nodes on which every rank has a sample in a step.")
    unknown = unknown_networks(training, sizes)
    if unknown:
        return unknown
    communication = training.communication
    rows = np.vstack([communication.coefficients, communication.drawn(DRAWS, SEED)])
    factors = _factors(scatter)
    times = [_times(training, size, rows, factors) for size in sizes]
    base = times[0].node_s_per_sample(training)
    return [
        _prediction(
            training, time, base if time is times[0] else base[:1], samples, node_use or NodeUse()
        )
        for time in times
    ]


@dataclass(frozen=True)
class _Times:
    """Steps by the fit's values, then by each draw of them."""

    nodes: int
    step_s: Vector
    exposed_s: Vector

    def node_s_per_sample(self, training: Training) -> Vector:
        return self.nodes * self.step_s / samples_per_step(training, self.nodes)


def _times(training: Training, nodes: int, rows: Matrix, factors: Vector) -> _Times:
    model = model_at(training, nodes)
    lines = allreduces_at(training, nodes, rows)
    exposed_s = np.array(exposed_at(training, nodes, model, lines))
    return _Times(nodes, (model.own_s + exposed_s) * factors, exposed_s * factors)


def _factors(scatter: Scatter | None) -> Vector:
    """By what a run to come differs from what the base's mean says; the first is 1.

    The logarithm is Student's t: the mean of the base is as uncertain as its runs are few, and the run to
    come scatters by itself.
    """
    if scatter is None:
        return np.ones(DRAWS + 1)
    # Imported where it is needed: it takes half a second, and most reports predict nothing.
    from scipy.stats import qmc

    chances = qmc.Sobol(1, rng=SEED + 1).random(DRAWS)[:, 0]
    error = scatter.sd * np.sqrt(1 + 1 / scatter.runs)
    drawn = np.exp(np.clip(stdtrit(scatter.freedom, chances) * error, -_FARTHEST, _FARTHEST))
    return np.concatenate([[1.0], drawn])


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
    return _times_known(node_hours * _HOUR_S * use.power_w / J_PER_KWH, use.carbon_g_per_kwh)


def _times_known(values: Vector, factor: float | None) -> Interval | None:
    return None if factor is None else _interval(values * factor)


def _interval(values: Vector) -> Interval:
    """The first is the estimate; it may lie beside draws that are cut off at no latency."""
    value, drawn = float(values[0]), values[1:]
    ends = [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]
    low, high = np.quantile(drawn, ends, method="median_unbiased").tolist()
    return Interval(value, min(value, low), max(value, high))

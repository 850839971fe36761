"""Step time, throughput and cost on numbers of nodes that were not measured, with their intervals.

Each draw is calibrated afresh. It has coefficients of the communication, mean steps on one node and on two
that are as uncertain as their runs are few, and from these its own factors of work and network. All runs
scatter by one standard deviation, which is drawn as well, so that each error by itself is Student's t.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv, ndtri

from argosy.report.statistics.estimates import CONFIDENCE
from argosy.report.statistics.least_squares import Matrix, Vector
from argosy.report.topics.laws import Interval, Refused
from argosy.report.topics.prediction.training import (
    SLOWEST,
    Training,
    Unknowns,
    as_fitted,
    samples_per_step,
    sizes_with_work,
    steps_at,
    unknown_networks,
)
from argosy_common.units import J_PER_KWH

DRAWS = 512
EXPOSED_SD = 0.03
"""Standard deviation of the model's own error in the communication that a step waits for, on the logarithm.

Steps that wait for little else were predicted within 6 % on networks of known delay and rate
(benchmarks/README.md)."""
OWN_SD = 0.0025
"""As `EXPOSED_SD`, of the rest of a step on several nodes: simulated ranks were off by 1 or 2 per mille."""
SEED = 1
# Two runs may scatter so much that nothing is known: by e^50 is as good as by any factor.
_FARTHEST = 50.0
_LEAST_OWN = 1e-6
_MOST_TRIES = 12
_EXACT = 1e-4


@dataclass(frozen=True)
class Scatter:
    """How runs scatter: the standard deviation of the logarithm of a run's step, by `freedom` degrees.

    `steps_s` are the geometric means of the runs' steps, and `runs` their number, by number of nodes, for
    one node and, where it was measured, for two.
    """

    sd: float
    freedom: int
    steps_s: Mapping[int, float]
    runs: Mapping[int, int]

    @classmethod
    def of(
        cls, steps_s: Mapping[int, Sequence[float]], others: Sequence[Sequence[float]] = ()
    ) -> "Scatter | None":
        """Return the means of the steps of runs by number of nodes, and of `others`, each of one size.

        None where no size has two runs.
        """
        logs = {nodes: np.log(runs) for nodes, runs in steps_s.items() if runs}
        sizes = [*logs.values(), *(np.log(runs) for runs in others if runs)]
        freedom = sum(one.size - 1 for one in sizes)
        if not freedom:
            return None
        squares = sum(float(((one - one.mean()) ** 2).sum()) for one in sizes)
        return cls(
            math.sqrt(squares / freedom),
            freedom,
            {nodes: math.exp(one.mean()) for nodes, one in logs.items()},
            {nodes: one.size for nodes, one in logs.items()},
        )


@dataclass(frozen=True)
class Draws:
    """The estimate, then groups of DRAWS draws.

    `to_come` is by how many times a run to come takes longer, and `of_model` the model's own error on
    several nodes, in standard deviations. Which of several groups is true is not known: an interval reaches
    over those of all.
    """

    unknowns: Unknowns
    to_come: Vector
    of_model: Vector


def drawn(training: Training, scatter: Scatter | None) -> Draws:
    """Return the draws of a calibrated training; without a `scatter`, of its communication alone.

    Where chance explains that two nodes take longer than expected, the network may be as fast as alone: a
    group of draws has it so. Draws are Sobol's points, whose percentiles are half as uneven as those of
    independent ones.
    """
    # Imported where it is needed: it takes half a second, and most reports predict nothing.
    from scipy.stats import qmc

    of_network = training.communication.coefficients.size
    chances = qmc.Sobol(of_network + 5, rng=SEED).random(DRAWS)
    coefficients = training.communication.drawn(chances[:, :of_network])
    fitted = as_fitted(training, DRAWS)
    groups = [Unknowns(coefficients, fitted.own, fitted.network)]
    to_come, of_model = np.ones(DRAWS), np.zeros(DRAWS)
    if scatter is not None:
        errors = _errors(scatter, chances[:, of_network:-1])
        groups = _calibrated(training, coefficients, scatter, errors)
        to_come = _exp(errors[:, 2])
        of_model = ndtri(chances[:, -1])
    all_rows = [as_fitted(training), *groups]
    unknowns = Unknowns(
        np.concatenate([one.coefficients for one in all_rows]),
        np.concatenate([one.own for one in all_rows]),
        np.concatenate([one.network for one in all_rows]),
    )
    return Draws(
        unknowns,
        np.concatenate([[1.0], *[to_come] * len(groups)]),
        np.concatenate([[0.0], *[of_model] * len(groups)]),
    )


def _errors(scatter: Scatter, chances: Matrix) -> Matrix:
    """Return draws of logarithms: the means of one and of two nodes, and a run; shape (draws, 3)."""
    variances = 2 * gammaincinv(scatter.freedom / 2, chances[:, 0]) / scatter.freedom
    runs = np.array([scatter.runs.get(1, 1), scatter.runs.get(2, 1), 1])
    sd = scatter.sd / np.sqrt(np.maximum(variances, np.finfo(float).tiny))
    return np.asarray(ndtri(chances[:, 1:]) / np.sqrt(runs) * sd[:, None])


def _exp(errors: Vector) -> Vector:
    return np.asarray(np.exp(np.clip(errors, -_FARTHEST, _FARTHEST)))


def _calibrated(
    training: Training, coefficients: Matrix, scatter: Scatter, errors: Matrix
) -> list[Unknowns]:
    """Calibrate each draw by its own steps, as `calibrate` does by the measured ones.

    Where two nodes take longer than the draw's network explains, it is slower in training than alone.
    """
    ones = np.ones(len(coefficients))
    one_s = scatter.steps_s[1] * _exp(errors[:, 0])

    def one_node(own: Vector) -> Vector:
        return steps_at(training, 1, Unknowns(coefficients, own, ones)).step_s / one_s - 1

    fitted = steps_at(training, 1, Unknowns(coefficients, ones, ones))
    most = one_s / (fitted.step_s - fitted.exposed_s)
    own = _root(one_node, ones * _LEAST_OWN, most)
    as_alone = Unknowns(coefficients, own, ones)
    if 2 not in scatter.steps_s:
        return [as_alone]
    two_s = scatter.steps_s[2] * _exp(errors[:, 1])

    def two_nodes(network: Vector) -> Vector:
        return steps_at(training, 2, Unknowns(coefficients, own, network)).step_s / two_s - 1

    slower = Unknowns(coefficients, own, _root(two_nodes, ones, ones * SLOWEST))
    return [slower] if training.network_factor > 1 else [slower, as_alone]


def _root(function: Callable[[Vector], Vector], low: Vector, high: Vector) -> Vector:
    """Return where a function that grows is 0, for each draw; the nearer end where it is so at neither.

    By false position, each end that stays counts half (the Illinois algorithm, Dowell and Jarratt, BIT 11,
    1971).
    """
    below, above = function(low), function(high)
    ended = np.where(below >= 0, low, np.where(above <= 0, high, np.nan))
    if np.isfinite(ended).all():
        return ended
    side = np.zeros_like(low)
    middle = low
    for _ in range(_MOST_TRIES):
        middle = high - above * (high - low) / np.where(above > below, above - below, 1.0)
        found = function(middle)
        is_above = found > 0
        below = np.where(is_above & (side > 0), below / 2, below)
        above = np.where(~is_above & (side < 0), above / 2, above)
        high, above = np.where(is_above, middle, high), np.where(is_above, found, above)
        low, below = np.where(is_above, low, middle), np.where(is_above, below, found)
        side = np.where(is_above, 1.0, -1.0)
        if (np.isfinite(ended) | (np.abs(found) < _EXACT)).all():
            break
    return np.where(np.isfinite(ended), ended, middle)


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
        return Refused("No number of nodes gives every rank a sample in each step.")
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

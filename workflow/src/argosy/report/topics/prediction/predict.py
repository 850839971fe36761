"""Predict step time, throughput and cost on unmeasured numbers of nodes, with intervals.

Each draw has its own calibration: random coefficients of the communication, and random mean steps on one
and two nodes, whose uncertainty depends on the number of runs, give its factors of work and network. All
runs share one standard deviation, which is drawn too, so each error follows Student's t.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv, ndtri

from argosy.report.statistics.estimates import CONFIDENCE
from argosy.report.statistics.least_squares import Matrix, Vector
from argosy.report.topics.laws.fits import Interval, Refused
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
"""Standard deviation of the model's error in exposed communication, on the logarithm.

Steps of mostly communication were predicted within 6 % on networks of known latency and bandwidth
(benchmarks/README.md)."""
OWN_SD = 0.0025
"""The same for the rest of a step on several nodes: simulated ranks were off by 1 or 2 per mille."""
SEED = 1
# Largest error on the logarithm; e^50 is as good as any factor.
_FARTHEST = 50.0
_LEAST_OWN = 1e-6
_MOST_TRIES = 12
_EXACT = 1e-4


@dataclass(frozen=True)
class Scatter:
    """Scatter of runs: the standard deviation of a run's log step, with `freedom` degrees of freedom.

    `steps_s` are geometric means of the runs' steps, and `runs` their number, by number of nodes: one, and
    two if measured.
    """

    sd: float
    freedom: int
    steps_s: Mapping[int, float]
    runs: Mapping[int, int]

    @classmethod
    def of(
        cls, steps_s: Mapping[int, Sequence[float]], others: Sequence[Sequence[float]] = ()
    ) -> "Scatter | None":
        """Pool the scatter of runs by number of nodes, and of `others`, a sequence for each further size.

        None if no size has two runs.
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
    """The estimate, followed by groups of DRAWS draws; intervals cover all groups, as any may be true.

    `to_come` is a future run's time relative to the mean; `of_model` is the model's error on several nodes,
    in standard deviations.
    """

    unknowns: Unknowns
    to_come: Vector
    of_model: Vector


def drawn(training: Training, scatter: Scatter | None) -> Draws:
    """Draw from a calibrated training; without a `scatter`, only its communication varies.

    If chance can explain a slow step on two nodes, the network may be as fast as in the benchmark: a second
    group of draws assumes so. Sobol points halve the error of percentiles.
    """
    # An import of half a second, which reports without a prediction avoid.
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
    """Draw log errors of the mean on one node, the mean on two nodes, and a run; shape (draws, 3)."""
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

    If two nodes take longer than the draw's network explains, its network is slower in training.
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
    """Return the zero of an increasing function for each draw, or the nearer end without a zero.

    It uses the Illinois variant of false position (Dowell and Jarratt, BIT 11, 1971).
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
    """Power, price and carbon intensity of a node during training; None if unknown."""

    power_w: float | None = None
    price_per_hour: float | None = None
    carbon_g_per_kwh: float | None = None


@dataclass(frozen=True)
class Prediction:
    """A predicted training on `nodes`; times, costs and emissions are for all its samples.

    `efficiency` is throughput per node relative to the base. If the scatter of runs is known, its 95 %
    interval is for the mean of runs, and the other intervals are for a future run. Otherwise all intervals
    contain only the uncertainty of the communication's fit.
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
    """Predict a training of `samples` samples on each number of nodes, smallest first, which is the base.

    Numbers of nodes with less than one sample per rank and step are omitted. `scatter` is of the runs that
    calibrated the training.
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
    """Return the lower end of the interval of the efficiency relative to one node."""
    one, several = (_times(training, size, draws) for size in (1, nodes))
    efficiency = one.node_s_per_sample(training) / several.node_s_per_sample(training)
    return _interval(efficiency).low


@dataclass(frozen=True)
class _Times:
    """Mean steps by the estimate, then by each draw; `to_come` is a run's time relative to the mean."""

    nodes: int
    step_s: Vector
    exposed_s: Vector
    to_come: Vector

    def node_s_per_sample(self, training: Training) -> Vector:
        return self.nodes * self.step_s / samples_per_step(training, self.nodes)


def _times(training: Training, nodes: int, draws: Draws) -> _Times:
    found = steps_at(training, nodes, draws.unknowns)
    # One node's step is measured; others have the model's error.
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
    """Return the interval of draws; `values` begins with the estimate.

    The estimate may be outside the draws, which are cut off at a latency of 0.
    """
    value, groups = float(values[0]), values[1:].reshape(-1, DRAWS)
    low, high = ends_over(groups[0], groups[-1])
    return Interval(value, min(value, low), max(value, high))


def ends_over(group: Vector, other: Vector) -> tuple[float, float]:
    """Return the smallest interval that covers CONFIDENCE of each of two groups of draws.

    It excludes equal tails of the `group`. For the `other`, only the sum of both tails counts: if one end
    excludes less, the other end may exclude more.
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

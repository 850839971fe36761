"""Predict step time, throughput and cost on unmeasured numbers of nodes, with intervals.

Each draw has its own calibration: random coefficients of the communication, and random mean steps on one
and two nodes, whose uncertainty depends on the number of runs, give its factors of work and network. All
runs share one standard deviation, which is drawn too, so each error follows Student's t.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtri

from argosy.report.statistics.estimates import CONFIDENCE, Estimate
from argosy.report.statistics.least_squares import Matrix, Vector
from argosy.report.summary.parts import NOT_KNOWN, PredictedPoint, Rates
from argosy.report.topics.laws.fits import Refused
from argosy.report.topics.prediction.training import (
    SLOWEST,
    KnownTraining,
    Scatter,
    Training,
    Unknowns,
    as_fitted,
    samples_per_step,
    sizes_with_work,
    steps_at,
    unknown_networks,
)

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
class Draws:
    """The estimate, followed by groups of DRAWS draws; intervals cover all groups, as any may be true.

    `to_come` is a future run's time relative to the mean; `of_model` is the model's error on several nodes,
    in standard deviations.
    """

    unknowns: Unknowns
    to_come: Vector
    of_model: Vector


def drawn(training: Training, scatter: Scatter | None) -> Draws:
    """Draw from a calibrated training; without a `scatter` there is only the estimate.

    If chance can explain a slow step on two nodes, the network may be as fast as in the benchmark: a second
    group of draws assumes so. Sobol points halve the error of percentiles.
    """
    fitted = as_fitted(training)
    if scatter is None:
        return Draws(fitted, np.ones(1), np.zeros(1))
    # An import of half a second, which reports without a prediction avoid.
    from scipy.stats import qmc

    of_network = training.communication.coefficients.size
    chances = qmc.Sobol(of_network + 5, rng=SEED).random(DRAWS)
    coefficients = training.communication.drawn(chances[:, :of_network])
    errors = _errors(scatter, chances[:, of_network:-1])
    groups = _calibrated(training, coefficients, scatter, errors)
    all_rows = [fitted, *groups]
    unknowns = Unknowns(
        np.concatenate([one.coefficients for one in all_rows]),
        np.concatenate([one.own for one in all_rows]),
        np.concatenate([one.network for one in all_rows]),
    )
    return Draws(
        unknowns,
        np.concatenate([[1.0], *[_exp(errors[:, 2])] * len(groups)]),
        np.concatenate([[0.0], *[ndtri(chances[:, -1])] * len(groups)]),
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

    def one_node(own: Vector, rows: Rows) -> Vector:
        unknowns = Unknowns(coefficients[rows], own, ones[rows])
        return steps_at(training, 1, unknowns).step_s / one_s[rows] - 1

    fitted = steps_at(training, 1, Unknowns(coefficients, ones, ones))
    most = one_s / (fitted.step_s - fitted.exposed_s)
    own = _root(one_node, ones * _LEAST_OWN, most)
    as_alone = Unknowns(coefficients, own, ones)
    if 2 not in scatter.steps_s:
        return [as_alone]
    two_s = scatter.steps_s[2] * _exp(errors[:, 1])

    def two_nodes(network: Vector, rows: Rows) -> Vector:
        unknowns = Unknowns(coefficients[rows], own[rows], network)
        return steps_at(training, 2, unknowns).step_s / two_s[rows] - 1

    slower = Unknowns(coefficients, own, _root(two_nodes, ones, ones * SLOWEST))
    return [slower] if training.network_factor > 1 else [slower, as_alone]


Rows = NDArray[np.int64]


def _root(function: Callable[[Vector, Rows], Vector], low: Vector, high: Vector) -> Vector:
    """Return the zero of an increasing function for each draw, or the nearer end without a zero.

    The function takes values for some draws, and their places.
    """
    # A slow import, which only predictions need.
    from scipy.optimize.elementwise import find_root

    rows = np.arange(low.size)
    found = find_root(
        function,
        (low, high),
        args=(rows,),
        tolerances={"fatol": _EXACT},
        maxiter=_MOST_TRIES,
    )
    below, above = function(low, rows), function(high, rows)
    return np.where(below >= 0, low, np.where(above <= 0, high, found.x))


def predict(
    known: KnownTraining, nodes: Sequence[int], samples: float, rates: Rates = NOT_KNOWN
) -> list[PredictedPoint] | Refused:
    """Predict a training of `samples` samples on each number of nodes, smallest first.

    Numbers of nodes with less than one sample per rank and step are omitted. Intervals of the efficiency,
    relative to one node, are for the mean of runs, and others for a future run. They require a known
    scatter of runs, and end at the largest measured size.
    """
    training = known.training
    sizes = sizes_with_work(training, nodes)
    if not sizes:
        return Refused("No number of nodes gives every rank a sample in each step.")
    unknown = unknown_networks(training, sizes)
    if unknown:
        return unknown
    draws, estimate = drawn(training, known.scatter), drawn(training, None)
    of_one = _node_s_per_sample(training, 1, draws)
    return [
        _point(
            known,
            size,
            samples,
            rates,
            draws if size <= known.most_nodes else estimate,
            of_one=of_one,
        )
        for size in sizes
    ]


def least_efficiency(training: Training, nodes: int, draws: Draws) -> float:
    """Return the lower end of the interval of the efficiency relative to one node."""
    one, several = (_node_s_per_sample(training, size, draws) for size in (1, nodes))
    found = _estimate(one / several)
    return found.mean if found.low is None else found.low


def _point(
    known: KnownTraining,
    nodes: int,
    samples: float,
    rates: Rates,
    draws: Draws,
    *,
    of_one: Vector,
) -> PredictedPoint:
    """Predict a number of nodes; `of_one` has the node-seconds of a sample on one node."""
    mean = _node_s_per_sample(known.training, nodes, draws)
    run = mean * draws.to_come
    of_step, measured_s = samples_per_step(known.training, nodes), known.measured_s.get(nodes)
    step_s, node_hours = _estimate(run * of_step / nodes), run * samples / 3600
    price, carbon = rates.price_per_node_hour, rates.carbon_g_per_kwh
    kw = None if known.power_w is None else known.power_w * (rates.pue or 1) / 1000
    return PredictedPoint(
        nodes=nodes,
        ranks=nodes * known.training.ranks_per_node,
        step_s=step_s,
        efficiency=_estimate(of_one[: mean.size] / mean),
        samples_per_s=_estimate(nodes / run),
        hours=_estimate(node_hours / nodes),
        node_hours=_estimate(node_hours),
        energy_kwh=None if kw is None else _estimate(node_hours * kw),
        price=None if price is None else _estimate(node_hours * price),
        carbon_kg=None
        if kw is None or carbon is None
        else _estimate(node_hours * kw * carbon / 1000),
        measured_samples_per_s=of_step / measured_s if measured_s else None,
        error=step_s.mean / measured_s - 1 if measured_s else None,
    )


def _node_s_per_sample(training: Training, nodes: int, draws: Draws) -> Vector:
    """Return the mean node-seconds of a sample, by the estimate, then by each draw."""
    found = steps_at(training, nodes, draws.unknowns)
    # One node's step is measured; others have the model's error.
    error = draws.of_model * (nodes > 1)
    own_s = (found.step_s - found.exposed_s) * np.exp(OWN_SD * error)
    step_s = own_s + found.exposed_s * np.exp(EXPOSED_SD * error)
    return np.asarray(nodes * step_s / samples_per_step(training, nodes))


def _estimate(values: Vector) -> Estimate:
    """Return the first value, the estimate, with the interval of the draws that follow it.

    The estimate may be outside the draws, which are cut off at a latency of 0.
    """
    value, groups = float(values[0]), values[1:].reshape(-1, DRAWS)
    if not groups.size:
        return Estimate(0, value)
    low, high = ends_over(groups[0], groups[-1])
    return Estimate(0, value, min(value, low), max(value, high))


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

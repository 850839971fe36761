"""What a prediction does not know, drawn: the network, the base, the model's own error, a run to come.

Each draw is calibrated afresh. It has coefficients of the communication, mean steps on one node and on two
that are as uncertain as their runs are few, and from these its own factors of work and network. All runs
scatter by one standard deviation, which is drawn as well, so that each error by itself is Student's t.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv, ndtri

from argosy.analysis.log_least_squares import Matrix, Vector
from argosy.analysis.prediction.calibration import SLOWEST
from argosy.analysis.prediction.training import Training, Unknowns, as_fitted, steps_at

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

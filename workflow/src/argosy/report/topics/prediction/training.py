"""Model of a training on any number of nodes, calibrated by measured steps on one and two nodes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from scipy.special import log_ndtr

from argosy.report.statistics.least_squares import Matrix, Vector
from argosy.report.topics.laws.fits import Refused
from argosy.report.topics.prediction.network import Communication, Lines
from argosy.report.topics.prediction.step import (
    Horovod,
    Model,
    exposed_seconds,
    gradients_of,
    slowed,
)

# The integrand vanishes beyond these ends; the steps are a fifth of its smallest width.
_NORMAL = np.linspace(-12.0, 20.0, 641)


def slowest_of(ranks: int, spread: float) -> float:
    """Return the expected maximum of one lognormal draw with mean 1 per rank.

    It is the integral of exp(spread z - spread² / 2) over the density of the largest of p normal draws,
    p phi(z) Phi(z)^(p-1) (David and Nagaraja, "Order Statistics", 2003, eq. 2.1.6), by the trapezoidal
    rule, which is exact to rounding for such a smooth function.

    Args:
        spread: Standard deviation of a rank's log time between steps, up to 3.

    Raises:
        ValueError: There is less than one rank, or the spread is negative.
    """
    if ranks < 1 or spread < 0:
        raise ValueError("the slowest is found among 1 rank or more, with a spread of 0 or more")
    if spread == 0:
        return 1.0
    log_phi = -(_NORMAL**2) / 2 - np.log(2 * np.pi) / 2
    log_density = np.log(ranks) + log_phi + (ranks - 1) * log_ndtr(_NORMAL)
    values = np.exp(log_density + spread * _NORMAL - spread**2 / 2)
    return float(values.sum() * (_NORMAL[1] - _NORMAL[0]))


@dataclass(frozen=True)
class Training:
    """A model on a machine.

    With weak scaling each rank has the model's samples per step; with strong scaling all ranks share the
    samples of one node's ranks. For `spread` see `slowest_of`. An allreduce between nodes takes
    `network_factor` times as long as fitted.
    """

    model: Model
    communication: Communication
    ranks_per_node: int
    scaling: Literal["strong", "weak"]
    horovod: Horovod = field(default_factory=Horovod)
    spread: float = 0.0
    network_factor: float = 1.0


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
class KnownTraining:
    """A calibrated training, and its data.

    Args:
        measured_s: Mean step by number of nodes, in s, all with the same ranks per node.
        scatter: None if no size has repeats, or if runs were lost.
        collectives: The experiment whose allreduces characterise the network.
        power_w: Power of a node during training; None if it was not measured.
        notes: Assumptions, as sentences.
    """

    training: Training
    measured_s: Mapping[int, float] = field(default_factory=dict)
    scatter: Scatter | None = None
    collectives: str = ""
    power_w: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def most_nodes(self) -> int:
        """The largest number of nodes with timed steps or allreduces."""
        return max([self.training.communication.most_nodes, *self.measured_s])


@dataclass(frozen=True)
class Unknowns:
    """Uncertain quantities of a prediction, with a value for each of many steps.

    Args:
        coefficients: Coefficients of the communication, shape (steps, 4).
        own: Factor of a rank's own work.
        network: Factor of allreduces between nodes.
    """

    coefficients: Matrix
    own: Vector
    network: Vector


@dataclass(frozen=True)
class Steps:
    """Seconds of each of many steps, and of the communication that adds to the own work."""

    step_s: Vector
    exposed_s: Vector


def sizes_with_work(training: Training, nodes: Sequence[int]) -> list[int]:
    """Return the distinct numbers of nodes, smallest first, with at least one sample per rank and step."""
    return [size for size in sorted(set(nodes)) if size >= 1 and _samples(training, size) >= 1]


def unknown_networks(training: Training, sizes: Sequence[int]) -> Refused | None:
    """Return why there is no prediction if a required network was not measured, else None."""
    if all(training.communication.knows(size, training.ranks_per_node) for size in sizes):
        return None
    return Refused("The ranks' network within a node, or between nodes, was not measured.")


def as_fitted(training: Training, count: int = 1) -> Unknowns:
    """Return the estimates of the fit and the calibration, for `count` steps."""
    return Unknowns(
        np.tile(training.communication.coefficients, (count, 1)),
        np.ones(count),
        np.full(count, training.network_factor),
    )


def step_s(training: Training, nodes: int) -> float:
    """Return the estimated seconds of a step."""
    return float(steps_at(training, nodes, as_fitted(training)).step_s[0])


def steps_at(training: Training, nodes: int, unknowns: Unknowns) -> Steps:
    """Return a step on a number of nodes for each row of `unknowns`."""
    return steps(training, [nodes] * unknowns.own.size, unknowns)


def steps(training: Training, nodes: Sequence[int], unknowns: Unknowns) -> Steps:
    """Return a step on each of `nodes`, with the same row of `unknowns`."""
    own_s, slower = (unknowns.own * column for column in _work(training, nodes))
    found = training.communication.lines(nodes, training.ranks_per_node, unknowns.coefficients)
    several = np.array(nodes) > 1
    network = np.where(several, unknowns.network, 1.0)
    lines = Lines(found.latency_s * network, found.s_per_byte * network)
    model = training.model
    exposed_s = exposed_seconds(
        gradients_of(model), model.backward_s, slower, lines, training.horovod
    )
    # A single rank waits neither for others nor for a cycle.
    if training.ranks_per_node == 1:
        exposed_s = np.where(several, exposed_s, 0.0)
    return Steps(own_s + exposed_s, exposed_s)


def samples_per_step(training: Training, nodes: int) -> float:
    """Return the samples of all ranks in a step."""
    return _samples(training, nodes) * nodes * training.ranks_per_node


def _work(training: Training, nodes: Sequence[int]) -> tuple[Vector, Vector]:
    """Return the slowest rank's own seconds, and the factor of its backward pass, for each of `nodes`."""
    sizes, places = np.unique(np.array(nodes), return_inverse=True)
    model = training.model
    shares = np.array([_samples(training, size) / model.samples for size in sizes.tolist()])
    ranks = (sizes * training.ranks_per_node).tolist()
    slow = np.array([slowest_of(count, training.spread) for count in ranks])
    own_s = slow * (shares * (model.own_s - model.update_s) + model.update_s)
    return own_s[places], (slow * shares)[places]


def _samples(training: Training, nodes: int) -> float:
    """Return a rank's samples in a step."""
    return training.model.samples / (nodes if training.scaling == "strong" else 1)


SLOWEST = 10.0
"""Largest factor of a network in training, relative to the benchmark."""


def calibrate(
    training: Training, measured_s: Mapping[int, float], by_chance: float = 0.0
) -> Training | Refused:
    """Calibrate a training by mean step times on one node and, if measured, on two.

    The prediction then equals the measurement on one node. If two nodes take significantly longer than
    predicted, allreduces between nodes get the factor that explains it. They never get faster: training
    shares network and processors, and a short step rather means wrong times of layers.

    Args:
        measured_s: Mean step in s, by number of nodes.
        by_chance: Half width of the interval of log(step on one node / on two); infinite if unknown.
    """
    if 1 not in measured_s:
        return Refused("A calibration needs the step time of one node.")
    if not all(0 < seconds < math.inf for seconds in measured_s.values()):
        return Refused("One of the step times is not a positive number.")
    unknown = unknown_networks(training, list(measured_s))
    if unknown:
        return unknown
    if step_s(_with_own(training, 0.0), 1) >= measured_s[1]:
        return Refused("One node's communication alone takes longer than its measured step.")
    factor = _own_factor(training, measured_s[1])
    corrected = _exactly(_with_own(training, factor), measured_s[1])
    return _with_network(corrected, measured_s[2], by_chance) if 2 in measured_s else corrected


def _own_factor(training: Training, measured_s: float) -> float:
    """Return the factor of own work that reproduces one node's measured step, up to a cycle."""

    # A slow import that a report of one point avoids.
    from scipy.optimize import brentq

    def too_long(factor: float) -> float:
        return step_s(_with_own(training, factor), 1) - measured_s

    highest = measured_s / (_slowest_alone(training) * training.model.own_s)
    # Without communication this is exact, up to rounding.
    return float(brentq(too_long, 0.0, highest)) if too_long(highest) > 0 else highest


def _exactly(training: Training, measured_s: float) -> Training:
    """Add the remaining difference, a part of a cycle, to the forward pass.

    The last allreduce waits for a cycle, so the step is a discontinuous function of the own work.
    """
    rest = measured_s - step_s(training, 1)
    forward_s = max(0.0, training.model.forward_s + rest / _slowest_alone(training))
    return replace(training, model=replace(training.model, forward_s=forward_s))


def _slowest_alone(training: Training) -> float:
    """Return the factor of the slowest rank's own work on one node."""
    return slowest_of(training.ranks_per_node, training.spread)


def _with_network(training: Training, measured_s: float, by_chance: float) -> Training:
    """Set the network factor that explains a significantly slow step on two nodes, up to SLOWEST."""

    from scipy.optimize import brentq

    def too_long(factor: float) -> float:
        return step_s(replace(training, network_factor=factor), 2) - measured_s

    is_chance = step_s(training, 2) >= measured_s * math.exp(-by_chance)
    found = 1.0
    if not is_chance and too_long(1.0) < 0 <= too_long(SLOWEST):
        found = float(brentq(too_long, 1.0, SLOWEST))
    return replace(training, network_factor=found)


def _with_own(training: Training, factor: float) -> Training:
    return replace(training, model=slowed(training.model, factor))

"""A prediction corrected by measured steps at one and two nodes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from argosy.analysis.laws import Refused
from argosy.analysis.prediction.layers import slowed
from argosy.analysis.prediction.training import Training, model_at, step_s, unknown_networks

SLOWEST = 10.0
"""No network is taken to be so many times as slow in training as alone."""


@dataclass(frozen=True)
class Calibration:
    """The corrected training, and how far it is from what was measured.

    `residuals` are relative, predicted over measured less 1, by number of nodes.
    """

    training: Training
    residuals: Mapping[int, float]


def calibrate(
    training: Training, measured_s: Mapping[int, float], by_chance: float = 0.0
) -> Calibration | Refused:
    """Correct a training by mean step times of single nodes and, if there, of two.

    With one node the prediction then equals the measurement. If two nodes take longer than expected by
    more than chance, the allreduces of several nodes take longer by the factor that explains it:
    the ratio of the steps on one and two nodes may be off by a factor of exp(`by_chance`), infinity
    where nobody knows. Allreduces do not take less: training shares the network and the processors, and
    a short step says rather that the times of the layers are wrong. What was measured on more nodes is
    compared and changes nothing.
    """
    if 1 not in measured_s:
        return Refused("A calibration takes the step time of one node.")
    if not all(0 < seconds < math.inf for seconds in measured_s.values()):
        return Refused("A step time is not a positive number.")
    unknown = unknown_networks(training, list(measured_s))
    if unknown:
        return unknown
    if step_s(_with_own(training, 0.0), 1) >= measured_s[1]:
        return Refused("One node's communication alone takes longer than its measured step.")
    factor = _own_factor(training, measured_s[1])
    corrected = _exactly(_with_own(training, factor), measured_s[1])
    if 2 in measured_s:
        corrected = _with_network(corrected, measured_s[2], by_chance)
    residuals = {
        nodes: step_s(corrected, nodes) / seconds - 1 for nodes, seconds in measured_s.items()
    }
    return Calibration(corrected, residuals)


def _own_factor(training: Training, measured_s: float) -> float:
    """Return the factor of the own work at which one node's step is as measured, but for a cycle."""

    # Imported where it is needed: a report of one point does without, and starts a fifth faster.
    from scipy.optimize import brentq

    def too_long(factor: float) -> float:
        return step_s(_with_own(training, factor), 1) - measured_s

    highest = measured_s / model_at(training, 1).own_s
    # Without communication that is the answer, but for rounding.
    return float(brentq(too_long, 0.0, highest)) if too_long(highest) > 0 else highest


def _exactly(training: Training, measured_s: float) -> Training:
    """Take up the rest, a part of a cycle, in the forward pass, which shifts all that follows.

    The last allreduce waits for a cycle, so the step grows with the own work by leaps.
    """
    rest = measured_s - step_s(training, 1)
    slow = model_at(training, 1).own_s / training.model.own_s
    forward_s = max(0.0, training.model.forward_s + rest / slow)
    return replace(training, model=replace(training.model, forward_s=forward_s))


def _with_network(training: Training, measured_s: float, by_chance: float) -> Training:
    """Return what no factor up to SLOWEST explains is no reason to change anything: the residuals tell."""

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

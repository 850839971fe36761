"""A wrong model, calibrated on one and two nodes, is right on sixteen."""

import math
from dataclasses import replace

import numpy as np
import pytest
from allreduce_times import hierarchical_s, hierarchical_times
from step_by_step import backward_and_send

from argosy.report.topics.laws.fits import Refused
from argosy.report.topics.prediction.communication import fit_communication
from argosy.report.topics.prediction.network import Communication
from argosy.report.topics.prediction.step import Horovod, Model, split_by
from argosy.report.topics.prediction.training import Training, calibrate, step_s

TICK_S = 2e-5
# Bytes and ticks of the true layers; convolutions take longer than their bytes suggest.
TRUE_LAYERS = [(1.6e7, 4), *[(8e6, 26)] * 8, *[(2e6, 42)] * 8, (1e5, 60)]
OTHER_S = 0.009
CYCLE_S = 1e-3
FUSED = 2.4e7

FOUND = fit_communication(hierarchical_times())
assert isinstance(FOUND, Communication)
SIZES = {f"layer{n}": size for n, (size, _) in enumerate(TRUE_LAYERS)}
# The times are guessed 40 % too low.
TRUE_S = [0.6 * ticks * TICK_S for _, ticks in TRUE_LAYERS]
GUESSED = Model(split_by(SIZES, sum(TRUE_S), TRUE_S), 0.0045, 0.0006, 0.0003, samples=32)
TRAINING = Training(GUESSED, FOUND, 4, "weak", Horovod(CYCLE_S, FUSED))


def true_step_s(nodes: int, congestion: float = 1.0) -> float:
    """By the slow simulator, with the true network, `congestion` times as slow between nodes."""

    def ticks(size: float) -> int:
        inside = hierarchical_s(size, 1, 4)
        between = hierarchical_s(size, nodes, 4) - inside
        return round((inside + congestion * between) / TICK_S)

    negotiation = round(ticks(0) / 2)
    after = backward_and_send(TRUE_LAYERS, ticks, round(CYCLE_S / TICK_S), FUSED, negotiation)
    return OTHER_S + after * TICK_S


def calibrated(training: Training, measured_s: dict[int, float]) -> Training:
    found = calibrate(training, measured_s, by_chance=0.014)
    assert isinstance(found, Training)
    return found


def steps_s(training: Training, nodes: list[int]) -> list[float]:
    return [step_s(training, size) for size in nodes]


@pytest.mark.parametrize("congestion", [1.0, 1.25, 1.5])
@pytest.mark.parametrize("seed", range(3))
def test_four_and_sixteen_nodes_within_five_per_cent(seed: int, congestion: float) -> None:
    scatter = 1 + 0.002 * np.random.default_rng(seed).standard_normal(2)
    measured_s = {n: true_step_s(n, congestion) * scatter[n - 1] for n in (1, 2)}
    found = calibrate(TRAINING, measured_s, by_chance=0.0055)
    assert isinstance(found, Training)
    truth = [true_step_s(nodes, congestion) for nodes in (4, 16)]
    # Neither the guess nor the measurement is close to the truth.
    assert steps_s(TRAINING, [16]) != pytest.approx(truth[1:], rel=0.05)
    assert measured_s[2] < 0.9 * truth[1]
    assert steps_s(found, [4, 16]) == pytest.approx(truth, rel=0.05)


def test_one_node_is_as_measured() -> None:
    for measured_s in (0.05, 0.1, 0.1234567, 3.0):
        found = calibrated(TRAINING, {1: measured_s})
        assert steps_s(found, [1]) == pytest.approx([measured_s], rel=1e-9)


def test_spread_is_not_counted_twice() -> None:
    found = calibrated(replace(TRAINING, spread=0.1), {1: 0.1})
    assert steps_s(found, [1]) == pytest.approx([0.1], rel=1e-9)
    without = calibrated(TRAINING, {1: 0.1})
    assert found.model.backward_s < without.model.backward_s


def test_without_communication_only_the_own_work_is_corrected() -> None:
    found = calibrated(replace(TRAINING, ranks_per_node=1), {1: 2 * GUESSED.own_s})
    assert found.model.backward_s == pytest.approx(2 * GUESSED.backward_s)
    assert found.network_factor == 1


def test_two_nodes_tell_how_slow_the_network_is() -> None:
    for congestion in (1.5, 2.0):
        measured_s = {nodes: true_step_s(nodes, congestion) for nodes in (1, 2, 4)}
        found = calibrate(TRAINING, measured_s)
        assert isinstance(found, Training)
        # Only the network between nodes is slower, but the factor covers all communication.
        assert 1.2 < found.network_factor < congestion
        two_s, four_s = steps_s(found, [2, 4])
        assert two_s == pytest.approx(measured_s[2], rel=0.01)
        assert four_s != pytest.approx(measured_s[4], rel=1e-6)
        assert four_s == pytest.approx(measured_s[4], rel=0.05)


def test_where_nobody_knows_what_chance_is_the_network_is_as_alone() -> None:
    measured_s = {nodes: true_step_s(nodes, 2.0) for nodes in (1, 2)}
    found = calibrate(TRAINING, measured_s, by_chance=math.inf)
    assert isinstance(found, Training)
    assert found.network_factor == 1
    assert steps_s(found, [2])[0] < 0.99 * measured_s[2]


def test_chance_says_nothing_of_the_network() -> None:
    measured_s = {1: true_step_s(1), 2: 1.006 * true_step_s(2)}
    assert calibrated(TRAINING, measured_s).network_factor == 1


@pytest.mark.parametrize("two_nodes_s", [0.05, 5.0])
def test_a_step_that_no_slow_network_explains_changes_nothing(two_nodes_s: float) -> None:
    found = calibrated(TRAINING, {1: 0.1, 2: two_nodes_s})
    assert found.network_factor == 1
    assert abs(steps_s(found, [2])[0] / two_nodes_s - 1) > 0.9


@pytest.mark.parametrize(
    ("measured_s", "reason"),
    [
        ({2: 0.1}, "A calibration needs the step time of one node."),
        ({1: 0.0}, "One of the step times is not a positive number."),
        ({1: 0.1, 2: float("nan")}, "One of the step times is not a positive number."),
        ({1: 1e-3}, "One node's communication alone takes longer than its measured step."),
    ],
)
def test_refusals(measured_s: dict[int, float], reason: str) -> None:
    assert calibrate(TRAINING, measured_s) == Refused(reason)

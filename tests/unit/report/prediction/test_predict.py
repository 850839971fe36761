"""Predictions follow from the model, and their intervals from the fit."""

import math
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from allreduce_times import hierarchical_s, hierarchical_times
from one_step import allreduce_at, model_at, simulate

from argosy.report import Rates
from argosy.report.statistics.estimates import Estimate
from argosy.report.summary.parts import PredictedPoint
from argosy.report.topics.laws.fits import Refused
from argosy.report.topics.prediction.communication import fit_communication
from argosy.report.topics.prediction.network import Communication
from argosy.report.topics.prediction.predict import ends_over, predict
from argosy.report.topics.prediction.step import Horovod, Model, split_layers
from argosy.report.topics.prediction.training import (
    KnownTraining,
    Scatter,
    Training,
    as_fitted,
    samples_per_step,
    slowest_of,
    step_s,
    steps_at,
)

# 100 MB of parameters in one message after the backward pass.
AT_THE_END = Horovod(cycle_s=0.2, fusion_threshold_bytes=math.inf)
MODEL = Model(
    split_layers({"all": 1e8}, 0.2),
    forward_s=0.1,
    update_s=0.01,
    data_s=0.02,
    samples=64,
)
POWERS = [2**power for power in range(13)]


def communication(noise: float = 0.02) -> Communication:
    found = fit_communication(hierarchical_times(noise))
    assert isinstance(found, Communication)
    return found


WEAK = Training(MODEL, communication(), 4, "weak", AT_THE_END)
STRONG = replace(WEAK, scaling="strong")


def sent_s(nodes: int) -> float:
    """The truth: one message of all parameters, after a negotiation."""
    return hierarchical_s(1e8, nodes, 4) + hierarchical_s(0, nodes, 4) / 2


def predicted(training: Training, nodes: list[int]) -> list[PredictedPoint]:
    return points(KnownTraining(training), nodes)


def points(
    known: KnownTraining, nodes: Sequence[int], rates: Rates | None = None
) -> list[PredictedPoint]:
    found = predict(known, nodes, 1e6, rates or Rates())
    assert isinstance(found, list)
    return found


def exposed_s(training: Training, nodes: int) -> float:
    return float(steps_at(training, nodes, as_fitted(training)).exposed_s[0])


def test_weak_scaling() -> None:
    exact = replace(WEAK, communication=communication(noise=0))
    for prediction in predicted(exact, POWERS):
        sent = sent_s(prediction.nodes)
        assert exposed_s(exact, prediction.nodes) == pytest.approx(sent)
        assert prediction.step_s and prediction.step_s.mean == pytest.approx(0.33 + sent)
        assert samples_per_step(exact, prediction.nodes) == 64 * 4 * prediction.nodes


def test_strong_scaling_divides_the_samples_of_one_node() -> None:
    exact = replace(STRONG, communication=communication(noise=0), horovod=Horovod(0.0, math.inf))
    one, four = predicted(exact, [4, 1])
    assert (one.nodes, four.nodes) == (1, 4)
    assert samples_per_step(exact, 1) == samples_per_step(exact, 4) == 256
    assert step_s(exact, 4) - exposed_s(exact, 4) == pytest.approx(0.32 / 4 + 0.01)


def test_strong_scaling_ends_with_a_sample_a_rank() -> None:
    assert [found.nodes for found in predicted(STRONG, POWERS)] == POWERS[:7]
    assert predict(KnownTraining(STRONG), [65, 100], 1e6) == Refused(
        "No number of nodes gives every rank a sample in each step."
    )


def test_quantities_agree_with_each_other() -> None:
    rates = Rates(price_per_node_hour=2.0, carbon_g_per_kwh=300.0, pue=1.2)
    base, found = points(KnownTraining(WEAK, power_w=500.0), [1, 64], rates)
    assert base.efficiency == Estimate(0, 1.0)
    rate = samples_per_step(WEAK, 64) / step_s(WEAK, 64)
    assert found.samples_per_s.mean == pytest.approx(rate)
    assert found.efficiency.mean == pytest.approx(rate / base.samples_per_s.mean / 64)
    assert found.hours.mean == pytest.approx(1e6 / rate / 3600)
    assert found.node_hours.mean == pytest.approx(64 * found.hours.mean)
    kwh = 64 * 1e6 / rate * 500 * 1.2 / 3.6e6
    assert found.energy_kwh and found.energy_kwh.mean == pytest.approx(kwh)
    assert found.price and found.price.mean == pytest.approx(2 * found.node_hours.mean)
    assert found.carbon_kg and found.carbon_kg.mean == pytest.approx(kwh * 0.3)


def test_what_is_not_known_of_nodes_is_not_told() -> None:
    (bare,) = predicted(WEAK, [1])
    assert bare.energy_kwh is bare.price is bare.carbon_kg is None
    (powered,) = points(KnownTraining(WEAK), [1], Rates(carbon_g_per_kwh=300.0))
    assert powered.carbon_kg is None


def test_intervals_need_a_scatter_of_runs_and_end_at_the_largest_measured_size() -> None:
    known = KnownTraining(WEAK, {16: 1.0}, Scatter(0.01, 4, {1: step_s(WEAK, 1)}, {1: 3}))
    base, two, sixteen, beyond = points(known, [1, 2, 16, 32])
    assert base.efficiency == Estimate(0, 1.0, 1.0, 1.0)
    for one in (two, sixteen):
        for found in (one.step_s, one.samples_per_s, one.efficiency, one.node_hours):
            assert found and found.low and found.high
            assert found.low < found.mean < found.high
    assert beyond.step_s and beyond.step_s.low is beyond.efficiency.low is None
    alone = points(KnownTraining(WEAK), [2, 16, 32])
    for one, without in zip((two, sixteen, beyond), alone, strict=True):
        assert one.hours.mean == without.hours.mean
        assert without.hours.low is None


def test_a_single_rank_sends_nothing() -> None:
    single = replace(WEAK, ranks_per_node=1)
    (base,) = predicted(single, [1])
    assert base.step_s and base.step_s.mean == pytest.approx(0.33)
    assert exposed_s(single, 1) == 0 < exposed_s(single, 2)


def test_the_slowest_rank_makes_the_step() -> None:
    spread = replace(WEAK, spread=0.05, horovod=Horovod(0.0, math.inf))
    for nodes in (1, 256):
        own_s = step_s(spread, nodes) - exposed_s(spread, nodes)
        assert own_s == pytest.approx(0.33 * slowest_of(4 * nodes, 0.05))


def test_a_prediction_is_the_simulated_step() -> None:
    layers = split_layers({f"layer{n}": 1e7 for n in range(10)}, 0.2)
    model = replace(MODEL, layers=layers)
    training = replace(
        STRONG, model=model, spread=0.02, horovod=Horovod(1e-3, 2.5e7), network_factor=1.5
    )
    slowest, allreduce = model_at(training, 16), allreduce_at(training, 16)
    step = simulate(slowest, allreduce, training.horovod)
    (found,) = predicted(training, [16])
    assert found.step_s and found.step_s.mean == pytest.approx(step.step_s)
    assert exposed_s(training, 16) == pytest.approx(step.exposed_s)
    assert sum(span.name == "allreduce" for span in step.timeline) > 1


def test_the_same_twice() -> None:
    known = KnownTraining(WEAK, {16: 1.0}, Scatter(0.01, 4, {1: step_s(WEAK, 1)}, {1: 3}))
    assert points(known, POWERS) == points(known, POWERS)


def test_networks_that_were_not_measured() -> None:
    inside = [found for found in hierarchical_times() if found.nodes == 1]
    found = fit_communication(inside)
    assert isinstance(found, Communication)
    training = replace(WEAK, communication=found)
    assert isinstance(predict(KnownTraining(training), [1], 1e6), list)
    assert predict(KnownTraining(training), [1, 2], 1e6) == Refused(
        "The ranks' network within a node, or between nodes, was not measured."
    )


def test_thirteen_sizes_in_a_second() -> None:
    layers = split_layers({f"layer{n}": 6e5 for n in range(160)}, 0.2)
    large = replace(WEAK, model=replace(MODEL, layers=layers), horovod=Horovod())
    known = KnownTraining(
        large,
        {4096: 1.0},
        Scatter(0.01, 4, {1: step_s(large, 1), 2: step_s(large, 2)}, {1: 3, 2: 3}),
    )
    began = time.process_time()
    points(known, POWERS)
    # Processor time; twice the limit, since other tests run at the same time.
    assert time.process_time() - began < 2


@pytest.mark.parametrize(("shift", "stretch"), [(0, 1), (1, 1), (3, 1), (-3, 1), (0, 3), (2, 0.3)])
def test_ends_leave_out_a_twentieth_of_either_group_and_no_more(
    shift: float, stretch: float
) -> None:
    chance = np.random.default_rng(3)
    group = chance.standard_normal(5000)
    other = shift + stretch * chance.standard_normal(5000)
    low, high = ends_over(group, other)
    outside = [float(((one < low) | (one > high)).mean()) for one in (group, other)]
    assert max(outside) <= 0.0504
    # One group uses all its tolerance.
    assert max(outside) >= 0.0496
    for tail in (group < low, group > high):
        assert tail.mean() <= 0.0252


def test_ends_of_one_group_are_its_percentiles() -> None:
    group = np.linspace(0, 1, 1001)
    assert ends_over(group, group) == pytest.approx((0.025, 0.975), abs=1e-3)

"""The work and the allreduces of a training on any number of nodes."""

from dataclasses import replace

import pytest
from allreduce_times import hierarchical_times
from one_step import allreduce_at, allreduce_of, model_at

from argosy.report.topics.prediction.communication import fit_communication
from argosy.report.topics.prediction.network import Communication
from argosy.report.topics.prediction.step import Horovod, Layer, Model
from argosy.report.topics.prediction.training import (
    Training,
    as_fitted,
    samples_per_step,
    sizes_with_work,
    slowest_of,
    step_s,
    steps_at,
)

FOUND = fit_communication(hierarchical_times())
assert isinstance(FOUND, Communication)
MODEL = Model((Layer("dense", 1e6, 0.4),), forward_s=0.2, update_s=0.1, data_s=0.2, samples=16)
WEAK = Training(MODEL, FOUND, 4, "weak", Horovod(0.0))
STRONG = replace(WEAK, scaling="strong")


def own_s(training: Training, nodes: int) -> float:
    found = steps_at(training, nodes, as_fitted(training))
    return float(found.step_s[0] - found.exposed_s[0])


def test_work_of_a_rank() -> None:
    assert own_s(WEAK, 8) == pytest.approx(0.9)
    assert own_s(STRONG, 8) == pytest.approx(0.8 / 8 + 0.1)
    spread = replace(WEAK, spread=0.1)
    assert own_s(spread, 8) == pytest.approx(0.9 * slowest_of(32, 0.1))
    assert own_s(spread, 8) == pytest.approx(model_at(spread, 8).own_s)


def test_samples_of_a_step() -> None:
    assert (samples_per_step(WEAK, 8), samples_per_step(STRONG, 8)) == (16 * 32, 16 * 4)
    assert sizes_with_work(STRONG, [17, 16, 1, 1, 0]) == [1, 16]
    assert sizes_with_work(WEAK, [17, 16, 1, 1, 0]) == [1, 16, 17]


def test_one_message_after_the_backward_pass() -> None:
    allreduce = allreduce_of(FOUND, 8, 4)
    assert allreduce.negotiation_s == allreduce.latency_s / 2 > 0
    sent_s = allreduce.negotiation_s + allreduce.seconds(1e6)
    assert step_s(WEAK, 8) == pytest.approx(0.9 + sent_s)


def test_a_slow_network_is_that_of_several_nodes() -> None:
    slow = replace(WEAK, network_factor=3.0)
    assert allreduce_at(slow, 1) == allreduce_of(FOUND, 1, 4)
    assert allreduce_at(slow, 8) == allreduce_of(FOUND, 8, 4).slowed(3.0)
    assert step_s(slow, 1) == step_s(WEAK, 1)


def test_a_single_rank_waits_for_no_cycle() -> None:
    assert step_s(replace(WEAK, ranks_per_node=1, horovod=Horovod(5.0)), 1) == MODEL.own_s

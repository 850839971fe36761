"""Recommended numbers of nodes agree with a search over all predictions."""

from dataclasses import replace

import pytest
from allreduce_times import hierarchical_times

from argosy.report.topics.prediction.answers import fastest_within, largest_with_efficiency
from argosy.report.topics.prediction.communication import fit_communication
from argosy.report.topics.prediction.network import Communication
from argosy.report.topics.prediction.predict import predict
from argosy.report.topics.prediction.step import Horovod, Model, split_layers
from argosy.report.topics.prediction.training import Training, step_s

FOUND = fit_communication(hierarchical_times())
assert isinstance(FOUND, Communication)
MODEL = Model(split_layers({"a": 1e8, "b": 5e7}, 0.06), 0.03, 0.002, 0.001, samples=64)
WEAK = Training(MODEL, FOUND, 4, "weak", Horovod())
STRONG = replace(WEAK, scaling="strong")
MOST = 80


@pytest.mark.parametrize("training", [WEAK, STRONG])
@pytest.mark.parametrize("efficiency", [0.3, 0.5, 0.7, 0.8, 1.0])
def test_the_largest_with_an_efficiency(training: Training, efficiency: float) -> None:
    predictions = predict(training, range(1, MOST + 1), 1e6)
    assert isinstance(predictions, list)
    good = [found.nodes for found in predictions if found.efficiency.value >= efficiency]
    assert largest_with_efficiency(training, efficiency, MOST) == max(good)


@pytest.mark.parametrize("node_hours", [0.4, 0.5, 0.7, 500.0])
def test_the_fastest_within_node_hours(node_hours: float) -> None:
    predictions = predict(STRONG, range(1, MOST + 1), 3e6)
    assert isinstance(predictions, list)
    paid = [found for found in predictions if found.node_hours.value <= node_hours]
    best = min(paid, key=lambda found: found.hours.value).nodes
    assert fastest_within(STRONG, node_hours, 3e6, MOST) == best


def test_more_node_hours_are_no_slower() -> None:
    answers = [fastest_within(STRONG, hours, 3e6, MOST) for hours in (0.4, 0.5, 0.7, 500.0)]
    assert len(set(answers)) > 2


def test_what_no_number_of_nodes_gives() -> None:
    assert largest_with_efficiency(STRONG, 1.01) is None
    assert fastest_within(WEAK, 1e-3, 1e6, MOST) is None
    tiny = replace(STRONG, model=replace(MODEL, samples=0.5))
    assert largest_with_efficiency(tiny, 0.8) is None


def test_what_was_measured_counts_instead_of_what_is_predicted() -> None:
    best = fastest_within(STRONG, 0.5, 3e6, MOST)
    assert isinstance(best, int) and best > 1
    slow = fastest_within(STRONG, 0.5, 3e6, MOST, {best: 10 * step_s(STRONG, best)})
    assert slow != best
    fast = fastest_within(STRONG, 0.5, 3e6, MOST, {2: 0.01 * step_s(STRONG, 2)})
    assert fast == 2

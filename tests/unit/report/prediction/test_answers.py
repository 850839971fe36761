"""Recommended numbers of nodes agree with a search over all predictions."""

from dataclasses import replace

import pytest
from allreduce_times import hierarchical_times

from argosy.report.summary.parts import PredictionSummary
from argosy.report.topics.prediction.answers import (
    Question,
    fastest_within,
    largest_with_efficiency,
    predicted_speeds,
    prediction_summary,
)
from argosy.report.topics.prediction.communication import fit_communication
from argosy.report.topics.prediction.network import Communication
from argosy.report.topics.prediction.predict import predict
from argosy.report.topics.prediction.step import Horovod, Model, split_layers
from argosy.report.topics.prediction.training import KnownTraining, Training, step_s

FOUND = fit_communication(hierarchical_times())
assert isinstance(FOUND, Communication)
MODEL = Model(split_layers({"a": 1e8, "b": 5e7}, 0.06), 0.03, 0.002, 0.001, samples=64)
WEAK = Training(MODEL, FOUND, 4, "weak", Horovod())
STRONG = replace(WEAK, scaling="strong")
MOST = 80
SPEEDS = predicted_speeds(STRONG, MOST)


@pytest.mark.parametrize("training", [WEAK, STRONG])
@pytest.mark.parametrize("efficiency", [0.3, 0.5, 0.7, 0.8, 1.0])
def test_the_largest_with_an_efficiency(training: Training, efficiency: float) -> None:
    predictions = predict(KnownTraining(training), range(1, MOST + 1), 1e6)
    assert isinstance(predictions, list)
    good = [found.nodes for found in predictions if found.efficiency.mean >= efficiency]
    speeds = predicted_speeds(training, MOST)
    assert largest_with_efficiency(speeds, efficiency * speeds[1]) == max(good)


@pytest.mark.parametrize("node_hours", [0.4, 0.5, 0.7, 500.0])
def test_the_fastest_within_node_hours(node_hours: float) -> None:
    predictions = predict(KnownTraining(STRONG), range(1, MOST + 1), 3e6)
    assert isinstance(predictions, list)
    paid = [found for found in predictions if found.node_hours.mean <= node_hours]
    best = min(paid, key=lambda found: found.hours.mean).nodes
    assert fastest_within(SPEEDS, node_hours, 3e6) == best


def test_more_node_hours_are_no_slower() -> None:
    answers = [fastest_within(SPEEDS, hours, 3e6) for hours in (0.4, 0.5, 0.7, 500.0)]
    assert len(set(answers)) > 2


def test_what_no_number_of_nodes_gives() -> None:
    assert largest_with_efficiency(SPEEDS, 1.01 * SPEEDS[1]) is None
    assert fastest_within(SPEEDS, 1e-3, 1e6) is None
    assert predicted_speeds(replace(STRONG, model=replace(MODEL, samples=0.5)), MOST) == {}


def test_what_was_measured_counts_instead_of_what_is_predicted() -> None:
    def within(measured_s: dict[int, float]) -> int | None:
        one_s = step_s(STRONG, 1)
        found = prediction_summary(
            KnownTraining(STRONG, {1: one_s, **measured_s}), Question(samples=3e6, node_hours=0.5)
        )
        assert isinstance(found, PredictionSummary)
        return found.nodes_within

    best = within({})
    assert isinstance(best, int) and best > 1
    assert within({best: 10 * step_s(STRONG, best)}) != best
    assert within({2: 0.01 * step_s(STRONG, 2)}) == 2

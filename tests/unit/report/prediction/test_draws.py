"""What a prediction does not know, and how often its intervals cover what is true."""

import math
from dataclasses import replace

import numpy as np
import pytest
from allreduce_times import hierarchical_times
from predicted_studies import HOROVOD, MODEL, predicted_study
from scipy import stats

from argosy.report.topics.prediction.communication import fit_communication
from argosy.report.topics.prediction.network import Communication
from argosy.report.topics.prediction.predict import DRAWS, drawn
from argosy.report.topics.prediction.training import Scatter, Training, step_s, steps_at

STUDIES = 30
LEAST = 0.83
"""Of 30 studies with intervals of 95 % fewer are covered in one of 200 such tests."""


def training() -> Training:
    found = fit_communication(hierarchical_times(0.03))
    assert isinstance(found, Communication)
    return Training(MODEL, found, 4, "weak", HOROVOD)


TRAINING = training()


def scatter(sd: float, one: int = 3, two: int = 3, factor: float = 1.0) -> Scatter:
    """Runs as long as predicted with a network that is `factor` times as slow in training."""
    two_s = step_s(replace(TRAINING, network_factor=factor), 2)
    steps_s = {1: step_s(TRAINING, 1), 2: two_s}
    return Scatter(sd, one + two - 2, steps_s, {1: one, 2: two})


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_intervals_cover_a_run_to_come_and_the_efficiency(noise: float) -> None:
    """Of a network that is slower in training; by the estimate of how much alone it is 0 to 6 of 10."""
    chance = np.random.default_rng([4, round(100 * noise)])
    found = [predicted_study(noise, 3, 5.0, (4, 16), chance) for _ in range(STUDIES)]
    for size in (4, 16):
        assert np.mean([one.steps[size] for one in found]) >= LEAST
        assert np.mean([one.efficiencies[size] for one in found]) >= LEAST


def test_what_is_not_known_of_the_network_says_nothing_of_the_runs() -> None:
    """Points of one net for all: those of two nets go up and down together."""
    draws = drawn(TRAINING, scatter(0.002, factor=4.0))
    first = slice(1, DRAWS + 1)
    to_come = draws.to_come[first]
    for column in (*draws.unknowns.coefficients[first].T, draws.unknowns.own[first]):
        assert abs(stats.spearmanr(column, to_come).statistic) < 0.15


def test_a_base_that_was_slow_by_chance_has_a_faster_network() -> None:
    unknowns = drawn(TRAINING, scatter(0.002, factor=4.0)).unknowns
    first = slice(1, DRAWS + 1)
    assert stats.spearmanr(unknowns.own[first], unknowns.network[first]).statistic < -0.3


def test_each_draw_takes_as_long_on_one_and_two_nodes_as_its_runs() -> None:
    known = scatter(0.002, one=4, two=9, factor=5.0)
    draws = drawn(TRAINING, known)
    first = slice(1, DRAWS + 1)
    for nodes in (1, 2):
        found = np.log(steps_at(TRAINING, nodes, draws.unknowns).step_s[first])
        errors = (found - math.log(known.steps_s[nodes])) * math.sqrt(known.runs[nodes]) / known.sd
        ends = stats.t(known.freedom).ppf([0.025, 0.975])
        assert np.quantile(errors, [0.025, 0.975]) == pytest.approx(ends, rel=0.12)


def test_where_chance_explains_two_nodes_the_network_may_be_as_fast_as_alone() -> None:
    draws = drawn(TRAINING, scatter(0.05))
    assert draws.to_come.size == 1 + 2 * DRAWS
    assert (draws.unknowns.network[1 + DRAWS :] == 1).all()
    assert 0.3 < np.mean(draws.unknowns.network[1 : 1 + DRAWS] > 1) < 0.7


def test_runs_on_one_node_alone_say_nothing_of_the_network() -> None:
    one_s = step_s(TRAINING, 1)
    known = Scatter.of({1: [0.9 * one_s, one_s, 1.1 * one_s]})
    assert known is not None
    assert known.freedom == 2
    assert (drawn(TRAINING, known).unknowns.network == 1).all()


def test_one_run_of_each_size_does_not_tell_how_runs_scatter() -> None:
    assert Scatter.of({1: [0.1], 2: [0.2]}, [[0.3]]) is None
    pooled = Scatter.of({1: [0.1], 2: [0.2]}, [[0.3, 0.3 * math.e]])
    assert pooled is not None
    assert (pooled.freedom, pooled.sd) == (1, pytest.approx(math.sqrt(0.5)))
    assert (pooled.runs, pooled.steps_s) == (
        {1: 1, 2: 1},
        {1: pytest.approx(0.1), 2: pytest.approx(0.2)},
    )

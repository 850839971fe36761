"""How ranks differ in a step is found, whatever they have in common."""

from pathlib import Path

import numpy as np
import pytest
from planned_studies import STEP_S, training, training_of_ranks
from reports import studied
from study_files import plan

from argosy.report.runs.measurements import Point
from argosy.report.topics.prediction.measured import rank_spreads, widest

TWO = Point(2, 2, 1)


def spreads(results: Path) -> dict[tuple[str, Point], float]:
    with studied(results) as tables:
        return rank_spreads(tables)


@pytest.mark.parametrize("common", [0.0, 0.2])
def test_the_spread_is_that_of_ranks_in_a_step(tmp_path: Path, common: float) -> None:
    chance = np.random.default_rng(5)
    for repeat in (1, 2):
        together = np.exp(common * chance.standard_normal((400, 1)))
        own_work_s = STEP_S * together * np.exp(0.05 * chance.standard_normal((400, 2)))
        training_of_ranks(tmp_path, {2: own_work_s}, repeat=repeat)
    found = spreads(tmp_path)
    assert found == {("training", TWO): pytest.approx(0.05, rel=0.1)}
    assert widest(found, "training", Point(1, 1, 1)) == found["training", TWO]
    assert widest(found, "training", Point(4, 1, 4)) is None


def test_ranks_that_wait_without_saying_so_tell_nothing(tmp_path: Path) -> None:
    training(tmp_path, {2: STEP_S})
    assert spreads(tmp_path) == {}


def test_a_rank_alone_and_sizes_beyond_two_nodes_tell_nothing(tmp_path: Path) -> None:
    chance = np.random.default_rng(6)
    own_work_s = {n: STEP_S * np.exp(0.05 * chance.standard_normal((60, n))) for n in (1, 4)}
    training_of_ranks(tmp_path, own_work_s)
    assert spreads(tmp_path) == {}


def test_without_layers_nothing_is_predicted_and_nothing_read(tmp_path: Path) -> None:
    run = plan(tmp_path, "training", 2)
    run.execute()
    for rank in range(2):
        run.timed_steps(rank, [0.1 + 0.01 * rank] * 30, [0.12] * 30, 32)
    assert spreads(tmp_path) == {}

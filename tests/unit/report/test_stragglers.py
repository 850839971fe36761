"""Planted slow ranks are found, and no others."""

import time

import numpy as np
import pytest
from numpy.typing import NDArray
from ugly_studies import Ugliness, rank_times

from argosy.report.runs.stragglers import stragglers

Work = NDArray[np.float64]


def alike(seed: int, steps: int = 200, ranks: int = 16, noise: float = 0.015) -> Work:
    """Return own work in seconds: steps vary equally on all ranks, and each rank has its own noise."""
    chance = np.random.default_rng(seed)
    pace = chance.lognormal(0, 0.1, (steps, 1))
    return 0.1 * pace * chance.lognormal(0, noise, (steps, ranks))


@pytest.mark.parametrize("slower", [1.05, 1.1, 1.5])
@pytest.mark.parametrize("period", [1, 2])
def test_a_planted_straggler_is_found(slower: float, period: int) -> None:
    for seed in range(20):
        work = alike(seed)
        work[::period, 5] *= slower
        [found] = stragglers(work, [rank // 4 for rank in range(16)])
        assert (found.rank, found.node) == (5, 1)
        assert found.ratio.mean == pytest.approx(slower ** (1 / period), rel=0.005)
        assert found.share == pytest.approx(1 / period, abs=0.2)


def test_a_rank_that_becomes_slow_half_way_is_found() -> None:
    work = alike(1)
    work[100:, 3] *= 1.1
    [found] = stragglers(work, list(range(16)))
    assert (found.rank, found.share) == (3, pytest.approx(0.5, abs=0.05))


def test_none_is_named_where_there_is_none() -> None:
    for seed in range(100):
        assert stragglers(alike(seed, ranks=64), list(range(64))) == []


def test_noise_with_a_heavy_tail_names_none() -> None:
    chance = np.random.default_rng(2)
    for _ in range(20):
        work = 0.1 + 0.02 * chance.standard_exponential((300, 32))
        assert stragglers(work, list(range(32))) == []


@pytest.mark.parametrize("autocorrelation", [0.9, 0.95])
@pytest.mark.parametrize("scatter", [0.02, 0.05])
def test_ranks_whose_steps_are_alike_are_none(scatter: float, autocorrelation: float) -> None:
    chance = np.random.default_rng(11)
    kind = Ugliness(scatter=scatter, autocorrelation=autocorrelation)
    runs = rank_times(kind, 200, 300, 16, chance)
    assert np.mean([bool(stragglers(run, range(16))) for run in runs]) <= 0.05


@pytest.mark.parametrize(("scatter", "autocorrelation"), [(0.05, 0.5), (0.03, 0.9), (0.02, 0.95)])
def test_a_slow_rank_is_found_among_them_and_its_ratio_is_true(
    scatter: float, autocorrelation: float
) -> None:
    chance = np.random.default_rng(12)
    kind = Ugliness(scatter=scatter, autocorrelation=autocorrelation, straggler=1.05)
    ratios = []
    for run in rank_times(kind, 200, 300, 16, chance):
        named = {one.rank: one.ratio for one in stragglers(run, range(16))}
        if 15 in named:
            ratios.append(named[15].mean)
    assert len(ratios) >= 0.75 * 200
    # Of borderline ranks, only those that seem slower are found.
    assert np.mean(ratios) == pytest.approx(1.05, abs=0.007)


@pytest.mark.parametrize(
    "kind", [Ugliness(epoch_scatter=0.04), Ugliness(scatter=0.03, autocorrelation=0.98)]
)
def test_work_that_differs_for_long_names_none(kind: Ugliness) -> None:
    runs = rank_times(kind, 200, 210, 8, np.random.default_rng(14))
    assert np.mean([bool(stragglers(run, range(8))) for run in runs]) <= 0.05


def test_slow_ranks_that_take_turns_are_none() -> None:
    chance = np.random.default_rng(13)
    kind = Ugliness(straggler=1.5, takes_turns=True)
    assert not any(stragglers(run, range(8)) for run in rank_times(kind, 20, 200, 8, chance))


def test_a_few_very_slow_steps_are_no_straggler() -> None:
    work = alike(3)
    work[::20, 7] *= 100
    assert stragglers(work, list(range(16))) == []


def test_few_steps_prove_nothing() -> None:
    work = alike(4, steps=2)
    work[0, 7] *= 1.2
    assert stragglers(work, list(range(16))) == []


def test_a_node_whose_ranks_are_all_slow_is_named_as_a_node() -> None:
    work = alike(5)
    work[:, 4:8] *= 1.1
    work[:, 12] *= 1.2
    node, rank = stragglers(work, [rank // 4 for rank in range(16)])
    assert (node.rank, node.node, node.share) == (None, 1, pytest.approx(1, abs=0.02))
    assert node.ratio.mean == pytest.approx(1.1, abs=0.01)
    assert (rank.rank, rank.node) == (12, 3)


def test_the_interval_covers_the_truth() -> None:
    covered = []
    for seed in range(200):
        work = alike(seed)
        work[:, 5] *= 1.2
        ratio = stragglers(work, list(range(16)))[0].ratio
        assert ratio.low and ratio.high
        covered.append(ratio.low <= 1.2 <= ratio.high)
    assert np.mean(covered) > 0.9


def test_of_two_ranks_the_slower_is_named() -> None:
    work = alike(6, ranks=2)
    work[:, 1] *= 1.3
    [found] = stragglers(work, [0, 1])
    assert (found.rank, found.ratio.mean) == (1, pytest.approx(1.3, rel=0.01))


def test_what_is_not_there_and_what_cannot_be() -> None:
    assert stragglers(np.empty((0, 4)), [0, 0, 1, 1]) == []
    assert stragglers(alike(7, ranks=1), [0]) == []
    with pytest.raises(ValueError, match="does not fit 3 ranks"):
        stragglers(alike(8, ranks=4), [0, 1, 2])
    with pytest.raises(ValueError, match="more than 0 s"):
        stragglers(np.zeros((5, 2)), [0, 1])


def test_a_thousand_ranks_take_seconds() -> None:
    work = alike(9, steps=10_000, ranks=1024, noise=0.02)
    began = time.process_time()
    assert stragglers(work, [rank // 8 for rank in range(1024)]) == []
    # Under a second where the machine is quiet.
    assert time.process_time() - began < 2

"""The slowest of many ranks, where its mean is known, and by chance."""

import numpy as np
import pytest
from scipy import stats

from argosy.report.topics.prediction.training import slowest_of


@pytest.mark.parametrize("spread", [0.0, 0.01, 0.3, 1.0, 3.0])
def test_one_and_two_ranks(spread: float) -> None:
    assert slowest_of(1, spread) == pytest.approx(1, rel=1e-12)
    assert slowest_of(2, spread) == pytest.approx(2 * stats.norm.cdf(spread / 2**0.5), rel=1e-12)


def test_without_spread_all_are_alike() -> None:
    assert slowest_of(4096, 0.0) == 1


@pytest.mark.parametrize("ranks", [8, 256])
def test_many_ranks_by_chance(ranks: int) -> None:
    chance = np.random.default_rng(3)
    slowest = np.exp(0.1 * chance.standard_normal((20_000, ranks)) - 0.005).max(axis=1)
    error = float(slowest.std()) / len(slowest) ** 0.5
    assert slowest_of(ranks, 0.1) == pytest.approx(float(slowest.mean()), abs=4 * error)


def test_more_ranks_have_a_slower_slowest_one() -> None:
    factors = [slowest_of(ranks, 0.05) for ranks in (1, 4, 64, 1024, 65536, 10**6)]
    assert factors == sorted(factors)
    assert 1.2 < factors[-1] < 1.3


@pytest.mark.parametrize(("ranks", "spread"), [(0, 0.1), (4, -0.1)])
def test_what_makes_no_sense(ranks: int, spread: float) -> None:
    with pytest.raises(ValueError, match="1 rank or more"):
        slowest_of(ranks, spread)

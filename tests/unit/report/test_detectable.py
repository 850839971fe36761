"""Detectable differences, compared with tables of power and simulated studies."""

import math

import numpy as np
import pytest
from scipy import stats

from argosy.report.statistics.few_runs import detectable_pair_ratio, detectable_ratio


def runs(scatter: float, count: int) -> list[float]:
    """Return runs whose logarithms have exactly this standard deviation."""
    logs = np.linspace(-1, 1, count)
    return np.exp(logs * scatter / logs.std(ddof=1)).tolist()


@pytest.mark.parametrize(("scatter", "count"), [(0.01, 6), (0.02, 18), (0.03, 38)])
def test_known_numbers_of_runs_for_two_per_cent(scatter: float, count: int) -> None:
    enough, fewer = (detectable_ratio(*[runs(scatter, n)] * 2) for n in (count, count - 2))
    assert enough and fewer
    assert enough <= 1.0203 and fewer > 1.02


def test_three_runs_a_side_see_six_per_cent_at_two_per_cent_of_scatter() -> None:
    assert detectable_ratio(*[runs(0.02, 3)] * 2) == pytest.approx(1.065, abs=0.005)


def test_it_is_seen_in_eighty_of_a_hundred_studies() -> None:
    chance = np.random.default_rng(3)
    ratio = detectable_ratio(*[runs(0.05, 4)] * 2)
    assert ratio
    shifted = math.log(ratio) + 0.05 * chance.standard_normal((4000, 4))
    found = stats.ttest_ind(shifted, 0.05 * chance.standard_normal((4000, 4)), axis=1)
    assert np.mean(found.pvalue < 0.05) == pytest.approx(0.8, abs=0.03)


def test_where_nobody_knows_there_is_none() -> None:
    assert detectable_ratio([1.0], [1.0, 2.0]) is None
    assert detectable_ratio([2.0, 2.0], [3.0, 3.0]) is None


@pytest.mark.parametrize(("scatter", "pairs"), [(0.01, 5), (0.02, 11), (0.03, 21)])
def test_known_numbers_of_pairs_for_two_per_cent(scatter: float, pairs: int) -> None:
    enough, fewer = (detectable_pair_ratio(runs(scatter, n), [1.0] * n) for n in (pairs, pairs - 2))
    assert enough and fewer
    assert enough <= 1.0203 and fewer > 1.02


def test_pairs_that_are_alike_or_alone_tell_nothing() -> None:
    assert detectable_pair_ratio([2.0, 4.0, 6.0], [1.0, 2.0, 3.0]) is None
    assert detectable_pair_ratio([2.0], [1.0]) is None

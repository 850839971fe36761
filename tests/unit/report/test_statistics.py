"""Intervals against SciPy, against known values, and against chance."""

import math

import numpy as np
import pytest
from scipy import stats

from argosy.report.statistics.estimates import (
    Estimate,
    geometric_mean_estimate,
    log_difference_estimate,
    mean_estimate,
    outliers,
    paired_ratio_estimate,
    proportion_estimate,
    ratio_estimate,
    scaled,
    share_estimate,
    together,
    total_estimate,
)

DRAWS = 4000


def test_the_mean_interval_is_scipys() -> None:
    values = [10.1, 9.7, 10.4, 10.0, 9.9]
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    found = mean_estimate(values)
    assert found.n == 5
    assert found.mean == pytest.approx(10.02)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_one_value_has_no_interval() -> None:
    assert mean_estimate([3.0]) == Estimate(n=1, mean=3.0, low=None, high=None)
    assert ratio_estimate([3.0], [1.0, 4.0]) == Estimate(1, pytest.approx(1.5))
    assert ratio_estimate([2.0, 8.0], [2.0]) == Estimate(2, pytest.approx(2.0))


def test_no_values_are_an_error() -> None:
    with pytest.raises(ValueError, match="no values"):
        mean_estimate([])


def test_equal_values_have_no_interval() -> None:
    """They were rounded: how far others would be off is not known."""
    assert mean_estimate([2.0, 2.0, 2.0]) == Estimate(3, 2.0)
    assert mean_estimate([0.0, 0.0]) == Estimate(2, 0.0)
    assert geometric_mean_estimate([0.1 + 0.2, 0.3]) == Estimate(2, pytest.approx(0.3))
    assert total_estimate([2.0, 2.0]) == Estimate(2, 2.0)
    assert proportion_estimate([0.5, 0.5]) == Estimate(2, 0.5)
    assert ratio_estimate([4.0, 4.0], [2.0, 2.0]) == Estimate(2, 2.0)
    assert paired_ratio_estimate([3.0, 6.0], [1.0, 2.0]) == Estimate(2, pytest.approx(3.0))
    # One of the two sets scatters.
    assert ratio_estimate([4.0, 4.0], [2.0, 2.1]).low is not None


def test_ratios_and_geometric_means_want_positive_values() -> None:
    with pytest.raises(ValueError, match="positive values"):
        ratio_estimate([1.0, 2.0], [0.0, 1.0])
    with pytest.raises(ValueError, match="positive values"):
        geometric_mean_estimate([1.0, -2.0])


def test_the_geometric_mean_of_what_scatters_widely_has_no_negative_end() -> None:
    found = geometric_mean_estimate([1e5, 4e6])
    assert found.low and found.high
    assert found.mean == pytest.approx(math.sqrt(1e5 * 4e6))
    assert 0 < found.low < found.mean < found.high
    assert geometric_mean_estimate([3.7]) == Estimate(1, 3.7)


def test_the_mean_of_shares_stays_between_none_and_all() -> None:
    found = proportion_estimate([0.99, 0.999, 0.9])
    assert found.mean == pytest.approx((0.99 + 0.999 + 0.9) / 3)
    assert found.low and found.high
    assert 0 < found.low < found.mean < found.high < 1
    assert proportion_estimate([1.0, 1.0]) == Estimate(2, 1.0)
    assert proportion_estimate([0.4]) == Estimate(1, 0.4)
    assert proportion_estimate([0.0, 1.0]).high == pytest.approx(1.0)
    with pytest.raises(ValueError, match="from 0 to 1"):
        proportion_estimate([0.5, 1.2])


@pytest.mark.parametrize("n", [2, 3, 5, 10])
def test_the_interval_of_shares_covers_the_truth(n: int) -> None:
    """Of means of ten observations of a beta distribution with the mean 0.8."""
    draws = np.random.default_rng(23).beta(8, 2, (DRAWS, n, 10)).mean(axis=2)
    found = [proportion_estimate(values) for values in draws.tolist()]
    covered = np.mean([(one.low or 0) <= 0.8 <= (one.high or 0) for one in found])
    assert 0.93 <= covered <= 0.97


def test_the_ratio_interval_swaps_its_ends_when_inverted() -> None:
    first, second = [10.0, 11.0, 12.0], [5.0, 5.2, 5.1]
    there, back = ratio_estimate(first, second), ratio_estimate(second, first)
    assert there.low and there.high
    assert (back.low, back.high) == pytest.approx((1 / there.high, 1 / there.low))


@pytest.mark.parametrize("n", [2, 3, 5, 10])
@pytest.mark.parametrize("scatter", [0.02, 0.1, 0.2])
def test_the_interval_of_what_adds_up_is_positive_and_covers_the_truth(
    n: int, scatter: float
) -> None:
    draws = np.random.default_rng(24).lognormal(-(scatter**2) / 2, scatter, (DRAWS, n))
    found = [total_estimate(values) for values in draws.tolist()]
    covered = np.mean([(one.low or 0) <= 1 <= (one.high or 0) for one in found])
    assert 0.93 <= covered <= 0.97
    assert all(one.low and one.low > 0 for one in found)


def test_of_what_was_never_used_there_is_no_interval() -> None:
    assert total_estimate([0.0, 0.0]) == Estimate(2, 0.0)
    assert total_estimate([2.5]) == Estimate(1, 2.5)
    far = total_estimate([1e-9, 4e6])
    assert far.low and far.high and 0 < far.low < far.mean < far.high < math.inf
    with pytest.raises(ValueError, match="must not be negative"):
        total_estimate([1.0, -1.0])


def test_intervals_that_hold_together_are_wider() -> None:
    alone = ratio_estimate([10.0, 11.0, 12.0], [5.0, 5.2, 5.1])
    four = together(alone, 4)
    assert alone.low and alone.high and four.low and four.high
    assert four.low < alone.low < alone.high < four.high
    assert together(alone, 1).low == pytest.approx(alone.low)
    assert together(Estimate(1, 2.0), 4) == Estimate(1, 2.0)


def test_the_worst_of_four_is_falsely_a_loss_in_5_of_100() -> None:
    """Of factors that all are 1, the one with the least mean is taken, as the report's sentence does."""
    chance = np.random.default_rng(25)
    false = 0
    for _ in range(DRAWS):
        runs = chance.lognormal(0, 0.05, (2, 4, 4)).tolist()
        found = [ratio_estimate(a, b) for a, b in zip(*runs, strict=True)]
        worst = together(min(found, key=lambda one: one.mean), 4)
        false += worst.high is not None and worst.high < 1
    assert false / DRAWS <= 0.05


def test_scaling_an_estimate() -> None:
    assert scaled(Estimate(3, 2.0, 1.0, 3.0), 0.5) == Estimate(3, 1.0, 0.5, 1.5)
    assert scaled(Estimate(1, 2.0), 0.5) == Estimate(1, 1.0)


@pytest.mark.parametrize("n", [3, 5])
def test_the_mean_interval_covers_the_truth_in_95_of_100(n: int) -> None:
    draws = np.random.default_rng(20).normal(100.0, 5.0, (DRAWS, n))
    found = [mean_estimate(values) for values in draws.tolist()]
    covered = np.mean([(one.low or 0) <= 100 <= (one.high or 0) for one in found])
    assert 0.93 <= covered <= 0.97


@pytest.mark.parametrize("n", [3, 5])
@pytest.mark.parametrize("spread", [(0.05, 0.05), (0.02, 0.08)])
def test_the_ratio_interval_covers_the_truth_in_95_of_100(
    n: int, spread: tuple[float, float]
) -> None:
    chance = np.random.default_rng(21)
    above = (160 * chance.lognormal(0, spread[0], (DRAWS, n))).tolist()
    below = (100 * chance.lognormal(0, spread[1], (DRAWS, n))).tolist()
    found = [ratio_estimate(a, b) for a, b in zip(above, below, strict=True)]
    covered = np.mean([(one.low or 0) <= 1.6 <= (one.high or 0) for one in found])
    # Welch's degrees of freedom are conservative for few jobs.
    assert 0.93 <= covered <= 0.98


def test_the_paired_ratio_is_the_paired_t_test_on_logarithms() -> None:
    first, second = [10.0, 22.0, 31.0, 39.0], [5.0, 10.0, 15.0, 20.0]
    found = paired_ratio_estimate(first, second)
    interval = stats.ttest_rel(np.log(first), np.log(second)).confidence_interval(0.95)
    assert (found.n, found.mean) == (4, pytest.approx(stats.gmean(np.divide(first, second))))
    assert (found.low, found.high) == pytest.approx(
        (math.exp(interval.low), math.exp(interval.high))
    )


def test_what_a_pair_has_in_common_cancels_out() -> None:
    chance = np.random.default_rng(22)
    nodes = chance.lognormal(0, 0.3, 10)
    above = (nodes * 1.1 * chance.lognormal(0, 0.01, 10)).tolist()
    paired, alone = (
        paired_ratio_estimate(above, nodes.tolist()),
        ratio_estimate(above, nodes.tolist()),
    )
    assert paired.low and paired.high and alone.low and alone.high
    assert 1.08 < paired.low < 1.1 < paired.high < 1.12
    assert alone.high - alone.low > 10 * (paired.high - paired.low)


def test_pairs_are_pairs() -> None:
    assert paired_ratio_estimate([3.0], [2.0]) == Estimate(1, pytest.approx(1.5))
    with pytest.raises(ValueError, match="3 values cannot be paired with 2"):
        paired_ratio_estimate([1.0, 2.0, 3.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="positive"):
        paired_ratio_estimate([1.0, 2.0], [1.0, 0.0])


def test_a_run_far_off_is_flagged() -> None:
    assert outliers([100.0, 101.0, 60.0, 99.0, 100.5]) == (False, False, True, False, False)
    assert outliers([100.0, 100.0, 100.0, 150.0]) == (False, False, False, True)


def test_an_outlier_does_not_depend_on_the_unit() -> None:
    values = [100.0, 101.0, 60.0, 99.0, 100.5, 140.0]
    assert outliers(values) == outliers([value / 1e6 for value in values])


def test_nothing_is_flagged_where_nothing_can_be() -> None:
    assert outliers([100.0, 100.0, 1.0]) == (False, False, False)
    assert outliers([]) == ()
    assert outliers([100.0, 100.0, 100.0, 100.4]) == (False,) * 4


def test_few_runs_are_flagged_by_chance() -> None:
    draws = np.random.default_rng(23).lognormal(5.0, 0.02, (DRAWS, 10)).tolist()
    assert np.mean([flag for values in draws for flag in outliers(values)]) < 0.02


def test_a_throughput_that_is_not_positive_has_no_logarithm() -> None:
    with pytest.raises(ValueError, match="positive"):
        outliers([1.0, 2.0, 3.0, 0.0])


def test_the_interval_of_a_ratio_of_geometric_means_is_welchs_on_logarithms() -> None:
    first, second = np.array([10.0, 11.0, 12.5]), np.array([5.0, 5.2, 4.9, 5.4])
    found = log_difference_estimate(np.log(first)[:, None] - np.log(second)[None, :])
    welch = stats.ttest_ind(np.log(first), np.log(second), equal_var=False)
    interval = welch.confidence_interval(0.95)
    assert found.n == 3
    assert found.mean == pytest.approx(stats.gmean(first) / stats.gmean(second))
    assert (found.low, found.high) == pytest.approx(
        (math.exp(interval.low), math.exp(interval.high))
    )
    assert ratio_estimate(first.tolist(), second.tolist()) == found
    assert log_difference_estimate(np.log(first)[:, None]).low is None


def test_a_share_of_known_numbers() -> None:
    found = share_estimate([3.0, 3.0], [1.0, 1.0], [4.0, 4.0, 4.0])
    assert found == Estimate(3, 0.5)
    assert share_estimate([3.0], [1.0, 1.0], [4.0, 4.0]) == Estimate(2, 0.5)
    with pytest.raises(ValueError, match="positive whole"):
        share_estimate([1.0, 2.0], [1.0, 1.0], [0.0, 0.0])


@pytest.mark.parametrize("is_of_more", [False, True])
@pytest.mark.parametrize("n", [3, 5])
def test_intervals_of_shares_cover_the_truth(is_of_more: bool, n: int) -> None:
    chance = np.random.default_rng(5)
    covered = 0
    for _ in range(DRAWS):
        more, less, other = (
            (mean * (1 + 0.02 * chance.standard_normal(n))).tolist() for mean in (1.0, 0.7, 1.3)
        )
        whole = more if is_of_more else other
        truth = 0.3 if is_of_more else 0.3 / 1.3
        found = share_estimate(more, less, whole)
        assert found.low is not None and found.high is not None
        covered += found.low <= truth <= found.high
    assert 0.93 <= covered / DRAWS <= 0.975

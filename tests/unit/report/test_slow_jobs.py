"""Two groups of jobs are told apart, and one that scatters is not."""

import numpy as np
import pytest
from scipy import stats

from argosy.report.statistics.few_runs import median_estimate, slow_jobs, unseen_share


def test_slow_jobs_are_found_with_their_share() -> None:
    found = slow_jobs([100.0, 50.0, 101.0, 99.0, 51.0])
    assert found is not None
    assert (found.slow, found.runs) == ((1, 4), 5)
    assert found.ratio == pytest.approx(100 / 50.5, rel=0.01)
    expected = stats.binomtest(2, 5).proportion_ci(method="exact")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize(
    "rates", [[100.0, 50.0, 101.0, 99.0], [1.0] * 5, [100.0, 104.0, 96.0, 90.0, 98.0]]
)
def test_few_or_alike_ones_are_no_two_groups(rates: list[float]) -> None:
    assert slow_jobs(rates) is None


@pytest.mark.parametrize("runs", [5, 7, 10])
@pytest.mark.parametrize("scatter", [0.02, 0.05])
def test_jobs_of_one_group_are_hardly_ever_two(runs: int, scatter: float) -> None:
    chance = np.random.default_rng(2)
    draws = np.exp(scatter * chance.standard_normal((2000, runs)))
    assert np.mean([slow_jobs(one) is not None for one in draws.tolist()]) <= 0.05


def test_what_could_be_unseen() -> None:
    assert [round(unseen_share(runs), 2) for runs in (3, 5, 10)] == [0.63, 0.45, 0.26]


@pytest.mark.parametrize(("runs", "low", "high"), [(6, 1, 6), (8, 1, 8), (10, 2, 9), (20, 6, 15)])
def test_the_median_has_the_interval_of_tables(runs: int, low: int, high: int) -> None:
    found = median_estimate([float(value) for value in range(runs, 0, -1)])
    assert found
    assert (found.n, found.mean, found.low, found.high) == (runs, (runs + 1) / 2, low, high)


def test_it_holds_where_one_job_in_five_is_slow_and_few_have_none() -> None:
    chance = np.random.default_rng(4)
    draws = np.exp(
        0.02 * chance.standard_normal((2000, 8)) - 0.3 * (chance.random((2000, 8)) < 0.2)
    )
    # Below it are the slow fifth, and three of eight of the others.
    truth = float(np.exp(0.02 * stats.norm.ppf(3 / 8)))
    found = [median_estimate(one) for one in draws.tolist()]
    covered = [one.low <= truth <= one.high for one in found if one and one.low and one.high]
    assert len(covered) == 2000 and np.mean(covered) >= 0.95
    assert median_estimate([1.0] * 5) is None

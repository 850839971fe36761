"""Intervals cover the truth as often as they say (`make bench-coverage` counts longer)."""

import math

import numpy as np
import pytest
from scaling_studies import coverage
from scipy import stats

from argosy.analysis.laws import AMDAHL, GUSTAFSON, LINEAR, USL, Fit, Law, fit


@pytest.mark.parametrize(("law", "count"), [(AMDAHL, 150), (GUSTAFSON, 150), (USL, 300)])
def test_intervals_cover_the_truth_in_95_of_100(law: Law, count: int) -> None:
    # Between what chance makes of 95 % in so many studies.
    for name, hits in coverage(law, count, seed=2).items():
        least, most = (stats.binom.ppf(chance, len(hits), 0.95) for chance in (0.002, 0.998))
        assert sum(hits) >= least, name
        # At a bound nothing is cut off on its side.
        assert sum(hits) <= most or name.endswith("= 0"), name


def test_the_interval_of_one_unknown_is_students() -> None:
    rates = [10.0, 10.4, 19.0, 21.0, 41.0]
    found = fit(LINEAR, [1, 1, 2, 2, 4], rates)
    assert isinstance(found, Fit)
    per_rank = [rate / size for rate, size in zip(rates, [1, 1, 2, 2, 4], strict=True)]
    logs = stats.ttest_1samp(np.log(per_rank), 0).confidence_interval(0.95)
    ends = (math.log(found.at_one.low), math.log(found.at_one.high))
    assert ends == pytest.approx((logs.low, logs.high), abs=1e-4)


def test_a_parameter_that_the_runs_say_nothing_of_has_a_wide_interval() -> None:
    found = fit(USL, [1, 2, 3, 4], [10.0, 35.0, 12.0, 90.0])
    assert isinstance(found, Fit)
    contention = found.parameters["contention"]
    assert (contention.low, contention.high) == (0.0, 1.0)
    assert found.parameters["coherency"].high > 1

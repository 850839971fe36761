"""Fits of runs whose law is known, and refusals."""

import numpy as np
import pytest
from scaling_studies import gustafson, usl

from argosy.report.topics.laws.fits import Fit, Refused, fit
from argosy.report.topics.laws.formulas import AMDAHL, GUSTAFSON, LINEAR, USL, Law

SIZES = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]


def fitted(law: Law, sizes: list[float], rates: list[float]) -> Fit:
    found = fit(law, sizes, rates)
    assert isinstance(found, Fit)
    return found


def scattered(rates: list[float], noise: float = 0.02, repeats: int = 4) -> list[float]:
    """Repeats of each rate, one size after the other."""
    chance = np.random.default_rng(30)
    many = np.repeat(rates, repeats)
    return (many * np.exp(noise * chance.standard_normal(many.size))).tolist()


def repeated(sizes: list[float], repeats: int = 4) -> list[float]:
    return [size for size in sizes for _ in range(repeats)]


def test_what_was_put_in_comes_out() -> None:
    found = fitted(USL, SIZES, [usl(size, 120.0, 0.05, 0.002) for size in SIZES])
    assert found.at_one.value == pytest.approx(120)
    assert found.parameters["contention"].value == pytest.approx(0.05)
    assert found.parameters["coherency"].value == pytest.approx(0.002)
    assert found.peak and found.peak.value == pytest.approx((0.95 / 0.002) ** 0.5)
    assert found.residual_sd < 1e-6
    assert found.r_squared == pytest.approx(1)
    assert (found.law, found.runs.n, found.runs.sizes.tolist()) == (USL, 6, SIZES)


def test_serial_fractions() -> None:
    strong = fitted(AMDAHL, SIZES, [usl(size, 50.0, 0.1, 0) for size in SIZES])
    weak = fitted(GUSTAFSON, SIZES, [gustafson(size, 50.0, 0.1) for size in SIZES])
    for found in (strong, weak):
        assert found.parameters["serial fraction"].value == pytest.approx(0.1)
        assert found.at_one.value == pytest.approx(50)
        assert found.peak is None


def test_the_base_may_be_larger_than_one_rank() -> None:
    found = fitted(AMDAHL, SIZES[2:], [usl(size, 50.0, 0.1, 0) for size in SIZES[2:]])
    assert found.at_one.value == pytest.approx(50)


def test_no_peak_in_sight() -> None:
    rates = scattered([usl(size, 120.0, 0.05, 0) for size in SIZES])
    found = fitted(USL, repeated(SIZES), rates)
    assert found.parameters["coherency"].low == 0
    assert found.peak is None


def test_the_peak_is_inside_its_interval_and_beyond_the_sizes_if_need_be() -> None:
    rates = scattered([usl(size, 120.0, 0.01, 0.0002) for size in SIZES], noise=0.01)
    found = fitted(USL, repeated(SIZES), rates)
    assert found.peak and found.peak.low < 70.4 < found.peak.high
    assert found.peak.low > 32


def test_throughput_that_only_falls_peaks_at_one_rank() -> None:
    found = fitted(USL, SIZES, [100.0, 40.0, 14.0, 4.0, 1.1, 0.3])
    assert found.peak and found.peak.low == found.peak.value == 1
    falls = fit(USL, SIZES[1:], [size**-3 for size in SIZES[1:]])
    assert falls == Refused("The throughput falls faster with the ranks than this law allows.")


def test_the_curve_is_surest_where_it_was_measured() -> None:
    rates = scattered([usl(size, 120.0, 0.05, 0.002) for size in SIZES])
    found = fitted(USL, repeated(SIZES), rates)
    widths = [
        (found.at(size).high - found.at(size).low) / found.at(size).value for size in (16, 256)
    ]
    assert widths[0] < 0.05 < widths[1]
    assert found.at(1).value == pytest.approx(found.at_one.value)
    inside = found.at(16)
    assert inside.low < usl(16, 120.0, 0.05, 0.002) < inside.high


def test_a_law_that_does_not_fit_says_so() -> None:
    rates = scattered([usl(size, 120.0, 0.05, 0.01) for size in SIZES])
    right, wrong = fitted(USL, repeated(SIZES), rates), fitted(AMDAHL, repeated(SIZES), rates)
    assert right.lack_of_fit_p and right.lack_of_fit_p > 0.05
    assert wrong.lack_of_fit_p is not None and wrong.lack_of_fit_p < 1e-6
    assert right.residual_sd == pytest.approx(0.02, rel=0.3)
    assert right.residual_sd < wrong.residual_sd
    assert right.r_squared > wrong.r_squared


def test_without_repeats_nothing_is_said_of_lack_of_fit() -> None:
    found = fitted(USL, SIZES, [usl(size, 120.0, 0.05, 0.01) for size in SIZES])
    assert found.lack_of_fit_p is None


def test_runs_without_throughput_are_left_out() -> None:
    found = fit(LINEAR, [1, 2, 2, 4], [10.0, None, 20.0, 40.0])
    assert isinstance(found, Fit) and found.runs.n == 3


@pytest.mark.parametrize(
    ("law", "sizes", "rates", "reason"),
    [
        (USL, [1, 2, 4, 4, 4], [1.0] * 5, "The fit needs 4 different sizes, but there are 3."),
        (AMDAHL, [1, 2, 2], [1.0] * 3, "The fit needs 3 different sizes, but there are 2."),
        (
            GUSTAFSON,
            [1, 2, 4],
            [1.0, 2.0, None],
            "The fit needs 3 different sizes, but there are 2.",
        ),
        (LINEAR, [4, 4], [1.0, 1.0], "The fit needs 2 different sizes, but there are 1."),
        (USL, [1, 2, 4, 8], [None] * 4, "No run has a throughput."),
        (USL, [], [], "No run has a throughput."),
        (
            USL,
            [1, 2, 4, 8],
            [1.0, 0.0, 3.0, 4.0],
            ("One of the throughputs is not a positive number."),
        ),
        (
            USL,
            [1, 2, 4, 8],
            [1.0, float("nan"), 3.0, 4.0],
            "One of the throughputs is not a positive number.",
        ),
        (
            USL,
            [0, 2, 4, 8],
            [1.0, 2.0, 3.0, 4.0],
            ("One of the sizes is not a number of ranks (1 or more)."),
        ),
    ],
)
def test_refusals(law: Law, sizes: list[float], rates: list[float | None], reason: str) -> None:
    assert fit(law, sizes, rates) == Refused(reason)


def test_each_run_has_a_size() -> None:
    with pytest.raises(ValueError, match="zip"):
        fit(LINEAR, [1, 2], [1.0])

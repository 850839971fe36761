"""Fits that a few far-off measurements do not change, and that keep to their bounds."""

import numpy as np
import pytest

from argosy.report.statistics.least_squares import robust_fit

PLACES = np.repeat(np.logspace(0, 4, 12), 3)
COLUMNS = np.column_stack([np.ones_like(PLACES), PLACES])
TRUE = COLUMNS @ np.array([5.0, 0.2])


def scattered(noise: float = 0.02) -> np.ndarray:
    return TRUE * np.exp(noise * np.random.default_rng(11).standard_normal(TRUE.size))


def test_what_was_put_in_comes_out() -> None:
    fit = robust_fit(COLUMNS, TRUE)
    assert fit.coefficients == pytest.approx([5.0, 0.2])
    assert fit.scale < 1e-6
    assert (fit.n, fit.freedom) == (36, 34)


def test_scatter_is_found() -> None:
    fit = robust_fit(COLUMNS, scattered())
    assert fit.scale == pytest.approx(0.02, rel=0.3)
    errors = (fit.coefficients - [5.0, 0.2]) / np.sqrt(np.diag(fit.covariance))
    assert np.abs(errors).max() < 3


def test_a_few_outliers_do_little() -> None:
    measured = scattered()
    before = robust_fit(COLUMNS, measured)
    measured[[0, 20, 35]] *= [5, 10, 3]
    after = robust_fit(COLUMNS, measured)
    assert after.coefficients == pytest.approx(before.coefficients, rel=0.01)
    widths = np.sqrt(np.diag(after.covariance) / np.diag(before.covariance))
    assert widths.max() < 1.5


def test_coefficients_are_not_negative() -> None:
    falls = robust_fit(COLUMNS, 5.0 * PLACES**-0.1)
    assert falls.coefficients[1] == 0 < falls.coefficients[0]


def test_units_do_not_matter() -> None:
    fit, scaled = (robust_fit(COLUMNS * unit, scattered()) for unit in (1.0, [1e6, 1e-9]))
    assert scaled.coefficients * [1e6, 1e-9] == pytest.approx(fit.coefficients)
    assert scaled.log_likelihood == pytest.approx(fit.log_likelihood)


def test_columns_that_fit_better_have_less_aicc() -> None:
    right, wrong = robust_fit(COLUMNS, scattered()), robust_fit(COLUMNS[:, :1], scattered())
    assert right.aicc < wrong.aicc - 100

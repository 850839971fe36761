"""The one loop of least squares on logarithms, beside SciPy's general one."""

import numpy as np
import pytest
from scipy.optimize import least_squares

from argosy.report.statistics.least_squares import (
    Matrix,
    Vector,
    first_coefficients,
    fit_logs,
    log_residuals,
)

SIZES = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
COLUMNS = np.column_stack([np.ones_like(SIZES), SIZES, SIZES * (SIZES - 1)])


def fitted(columns: Matrix, target: Vector, weights: Vector) -> tuple[Vector, float]:
    """Return the coefficients and the squares left."""

    def weigh(residuals: Vector, _: Vector | None) -> tuple[Vector, float]:
        return weights, float(((weights * residuals) ** 2).sum())

    begin = first_coefficients(columns, target, weights)
    return fit_logs(columns, target, begin, weigh, tolerance=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_no_other_coefficients_leave_fewer_squares(seed: int) -> None:
    chance = np.random.default_rng(seed)
    truth = chance.uniform(0.0, 1.0, 3) * [1.0, 0.1, seed % 2 * 0.01]
    target = np.log(COLUMNS @ truth) + 0.2 * chance.standard_normal(SIZES.size)
    weights = chance.uniform(0.5, 2.0, SIZES.size)
    found, squares = fitted(COLUMNS, target, weights)
    other = least_squares(
        lambda tried: weights * log_residuals(COLUMNS, target, tried),
        np.maximum(truth, 1e-6),
        bounds=(0.0, np.inf),
        xtol=1e-14,
        ftol=1e-14,
    )
    assert found.min() >= 0
    assert squares <= 2 * other.cost * (1 + 1e-6)


def test_what_lies_on_a_curve_gives_its_coefficients() -> None:
    truth = np.array([0.9, 0.1, 0.0])
    found, squares = fitted(COLUMNS, np.log(COLUMNS @ truth), np.ones_like(SIZES))
    assert found == pytest.approx(truth, abs=1e-9)
    assert squares == pytest.approx(0, abs=1e-18)

"""The best curve, beside SciPy's."""

import numpy as np
import pytest
from scaling_studies import studies
from scipy import optimize

from argosy.report.statistics.least_squares import Vector
from argosy.report.topics.laws.formulas import AMDAHL, LINEAR, USL, fit_curve, log_rates_at, runs_of


def scipys_squares(sizes: Vector, rates: Vector) -> float:
    """The least squares by another method, in the parameters themselves."""

    def residuals(found: Vector) -> Vector:
        log_rate, contention, coherency = found
        shape = 1 + contention * (sizes - 1) + coherency * sizes * (sizes - 1)
        return np.asarray(np.log(rates) - log_rate - np.log(sizes) + np.log(shape))

    start = [np.log(rates[0] / sizes[0]), 0.05, 0.005]
    bounds = ([-np.inf, 0, 0], [np.inf, 1, np.inf])
    result = optimize.least_squares(residuals, start, bounds=bounds, xtol=1e-12, ftol=1e-12)
    return float(2 * result.cost)


def test_no_curve_is_better() -> None:
    for study in studies("usl", 50, seed=3):
        sizes, rates = np.array(study.sizes), np.array(study.rates)
        best = fit_curve(USL, runs_of(sizes, rates)).squares
        assert best == pytest.approx(scipys_squares(sizes, rates), rel=1e-5)


def test_repeats_weigh_as_much_as_single_runs() -> None:
    sizes, rates = np.array([1.0, 1.0, 1.0, 2.0]), np.array([10.0, 11.0, 9.0, 16.0])
    found = fit_curve(LINEAR, runs_of(sizes, rates))
    log_rate = np.log(rates / sizes).mean()
    assert found.squares == pytest.approx(((np.log(rates / sizes) - log_rate) ** 2).sum())


def test_a_curve_goes_through_the_point_it_has_to() -> None:
    runs = runs_of(np.array([1.0, 2.0, 4.0, 8.0]), np.array([10.0, 19.0, 33.0, 60.0]))
    found = fit_curve(USL, runs, through=(16.0, 0.5))
    assert log_rates_at(USL, found.coefficients, np.array([16.0]))[0] == pytest.approx(
        0.5, abs=1e-6
    )
    assert found.squares > fit_curve(USL, runs).squares


def test_a_cone_holds_a_parameter() -> None:
    runs = runs_of(np.array([1.0, 2.0, 4.0, 8.0]), np.array([10.0, 19.0, 33.0, 60.0]))
    [serial] = AMDAHL.parameters
    found = fit_curve(AMDAHL, runs, cone=serial.cone(0.2))
    assert serial.of(found.coefficients) == pytest.approx(0.2)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_the_unit_does_not_matter(unit: float) -> None:
    sizes, rates = np.array([1.0, 2.0, 4.0, 8.0]), np.array([10.0, 19.0, 33.0, 60.0])
    [serial] = AMDAHL.parameters
    found = fit_curve(AMDAHL, runs_of(sizes, unit * rates))
    assert serial.of(found.coefficients) == pytest.approx(0.0489, abs=1e-3)

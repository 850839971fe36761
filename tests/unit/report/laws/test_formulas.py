"""The laws and their parameters are two views of the same coefficients."""

import numpy as np
import pytest

from argosy.report.topics.laws.formulas import AMDAHL, GUSTAFSON, PEAK, USL, Law, Parameter, peak_at

SIZES = np.array([1.0, 4.0, 16.0])


@pytest.mark.parametrize(
    ("law", "parameter"),
    [
        *((law, parameter) for law in (AMDAHL, GUSTAFSON, USL) for parameter in law.parameters),
        (USL, PEAK),
    ],
)
@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
def test_all_coefficients_of_a_cone_have_its_value(
    law: Law, parameter: Parameter, value: float
) -> None:
    cone = parameter.cone(value)
    assert cone.shape == (law.unknowns, law.unknowns - 1)
    for free in (np.full(law.unknowns - 1, 2.0), np.arange(1.0, law.unknowns)):
        assert parameter.of(cone @ free) == pytest.approx(value)


def test_throughputs_of_the_textbooks() -> None:
    # A tenth is serial: Amdahl's speed-up of 16 ranks is 6.4, Gustafson's 14.5.
    assert 16 / (AMDAHL.columns(SIZES)[2] @ [0.9, 0.1]) == pytest.approx(6.4)
    assert GUSTAFSON.columns(SIZES)[2] @ [0.1, 0.9] == pytest.approx(14.5)
    # 1 + 0.1 * 15 + 0.01 * 16 * 15 = 4.9
    assert 16 / (USL.columns(SIZES)[2] @ [0.9, 0.1, 0.01]) == pytest.approx(16 / 4.9)


def test_the_peak_is_where_throughput_is_highest() -> None:
    sizes = np.linspace(1, 30, 2901)
    coefficients = np.array([0.9, 0.1, 0.01])
    highest = sizes[np.argmax(sizes / (USL.columns(sizes) @ coefficients))]
    assert peak_at(PEAK.of(coefficients)) == pytest.approx(highest, abs=0.01)
    assert peak_at(1.0) == 1.0

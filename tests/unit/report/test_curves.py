"""Curves of fitted laws are those that were fitted."""

import pytest
from scaling_studies import gustafson, usl

from argosy.report.runs.measurements import Measurement, Point
from argosy.report.topics.laws import says as curves
from argosy.report.topics.laws.fits import fit
from argosy.report.topics.laws.formulas import AMDAHL, GUSTAFSON, LINEAR, USL, Law
from argosy.report.topics.laws.says import law_summaries

SIZES = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]


def runs(scaling: str) -> list[Measurement]:
    """Two runs a size, a little apart, so that no fit is perfect."""
    found = []
    for size in SIZES:
        rate = usl(size, 100, 0.05, 0.001) if scaling == "strong" else gustafson(size, 100, 0.2)
        for repeat, scatter in enumerate((0.99, 1.01)):
            point = Point(int(size), int(size), 1)
            found.append(Measurement("digits", f"{size}-{repeat}", scaling, point, rate * scatter))
    return found


@pytest.mark.parametrize(
    ("scaling", "law"),
    [("strong", LINEAR), ("strong", AMDAHL), ("strong", USL), ("weak", GUSTAFSON)],
)
def test_a_curve_goes_where_its_fit_does(scaling: str, law: Law) -> None:
    measured = runs(scaling)
    [summary] = [one for one in law_summaries(scaling, measured).laws if one.law == law.name]
    fitted = fit(
        law, [run.point.ranks for run in measured], [run.samples_per_s for run in measured]
    )
    for ranks in (1, 5, 32, 64):
        assert curves.throughput(summary, ranks) == pytest.approx(fitted.at(ranks).value, rel=1e-9)


def test_a_curve_ends_at_the_largest_size() -> None:
    sizes = curves.curve_sizes(3, 24)
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (3, 24)


def test_there_is_no_curve_without_a_fit() -> None:
    assert curves.best([]) is None
    assert curves.best(law_summaries("strong", runs("strong")[:2]).laws) is None

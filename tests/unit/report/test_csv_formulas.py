"""Names that a spreadsheet program would take for formulas."""

import csv
import io

import pytest

from argosy.report.outputs.summary_csv import csv_text

NAMES = ('=HYPERLINK("x")', "+1", "-2+3", "@SUM(1)", "\t=1", "\r=1", "\n=1", "＝1")


@pytest.mark.parametrize("name", NAMES)
def test_text_is_never_a_formula(name: str) -> None:
    [row] = csv.reader(io.StringIO(csv_text([(name, "plain")]), newline=""))
    assert row == [f"'{name}".replace("\r", " "), "plain"]


def test_numbers_stay_numbers() -> None:
    assert csv_text([("a", -1.5, -3, None, "s/step")]) == "a,-1.5,-3,,s/step\n"

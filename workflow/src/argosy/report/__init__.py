"""From the tables to files for people: HTML, JSON, CSV.

A few lines in the terminal are made in `terminal`, answers to questions in `predicting`.
"""

from argosy.report.summary.parts import Rates
from argosy.report.write import ReportFiles, make_report, write_comparison, write_report

__all__ = [
    "Rates",
    "ReportFiles",
    "make_report",
    "write_comparison",
    "write_report",
]

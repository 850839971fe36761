"""Write a study's report from its tables: HTML, JSON and CSV."""

from argosy.report.summary.parts import Rates
from argosy.report.write import ReportFiles, make_report, write_comparison, write_report

__all__ = [
    "Rates",
    "ReportFiles",
    "make_report",
    "write_comparison",
    "write_report",
]

"""From the tables to files for people: HTML, JSON, CSV, and a few lines in the terminal."""

from argosy.report.costs import Rates
from argosy.report.planning import plan
from argosy.report.terminal import print_summary
from argosy.report.write import ReportFiles, make_report, write_comparison, write_report

__all__ = [
    "Rates",
    "ReportFiles",
    "make_report",
    "plan",
    "print_summary",
    "write_comparison",
    "write_report",
]

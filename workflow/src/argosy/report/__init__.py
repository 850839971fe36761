"""From the tables to files for people: HTML, JSON, CSV, and a few lines in the terminal."""

from argosy.report.costs import Rates
from argosy.report.terminal import print_summary
from argosy.report.write import ReportFiles, make_report, write_report

__all__ = ["Rates", "ReportFiles", "make_report", "print_summary", "write_report"]

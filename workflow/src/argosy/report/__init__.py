"""From the tables to files for people: HTML, JSON, CSV.

`outputs/terminal.py` prints a few lines; `topics/prediction/predicted.py` answers how many nodes to take.
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

"""Tables and reports of results that a test has made."""

import json
from pathlib import Path

from argosy.report import Rates, ReportFiles, write_report
from argosy.report.summary.models import Summary, read_summary
from argosy.results import collect


def reported(results: Path, rates: Rates | None = None) -> ReportFiles:
    """Write the tables and the report of a site's results; return the report's files."""
    collect(results, results / "tables")
    return write_report(results, rates or Rates())


def reported_summary(results: Path, rates: Rates | None = None) -> Summary:
    """Write the tables and the report of a site's results; return the summary as its file has it."""
    return read_summary(json.loads(reported(results, rates).json.read_text()))

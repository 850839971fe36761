"""Tables and reports of results that a test has made."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from argosy.report import Rates, ReportFiles, write_report
from argosy.report.runs.study_tables import StudyTables, open_study
from argosy.report.summary.models import Summary, read_summary
from argosy.report.summary.summarise import summarise
from argosy.results import collect


def reported(results: Path, rates: Rates | None = None) -> ReportFiles:
    """Write the tables and the report of a site's results; return the report's files."""
    collect(results, results / "tables")
    return write_report(results, rates or Rates())


def reported_json(results: Path) -> dict[str, Any]:
    """Write the tables and the report of a site's results; return the parsed summary.json."""
    content: dict[str, Any] = json.loads(reported(results).json.read_text())
    return content


def reported_text(results: Path) -> str:
    """Write the tables and the report of a site's results; return the page with single spaces."""
    return " ".join(reported(results).html.read_text().split())


def reported_summary(results: Path, rates: Rates | None = None) -> Summary:
    """Write the tables and the report of a site's results; return the summary as its file has it."""
    return read_summary(json.loads(reported(results, rates).json.read_text()))


def summarised(results: Path, rates: Rates | None = None) -> Summary:
    """Write the tables of a site's results; return their summary."""
    collect(results, results / "tables")
    return summarise(results / "tables", rates or Rates())


@contextmanager
def studied(results: Path) -> Iterator[StudyTables]:
    """Write the tables of a site's results and open them."""
    collect(results, results / "tables")
    with open_study(results / "tables") as tables:
        yield tables

"""The room's one door: tables in, the report's files out."""

from dataclasses import dataclass
from pathlib import Path

from argosy.files import write_text
from argosy.report.costs import NOT_KNOWN, Rates
from argosy.report.export import summary_csv
from argosy.report.models import summary_json
from argosy.report.page import page
from argosy.report.summary import summarise


@dataclass(frozen=True)
class ReportFiles:
    """Where the files of a report are."""

    html: Path
    json: Path
    csv: Path


def make_report(
    tables_dir: Path, results_dir: Path, out_dir: Path, rates: Rates = NOT_KNOWN
) -> ReportFiles:
    """Write report.html, summary.json and summary.csv to `out_dir`, each atomically.

    Only the tables are read; `results_dir` is what their log files are relative to. The same
    tables give the same bytes. Raises ResultsError when a table is missing or of another version.
    """
    summary = summarise(tables_dir, rates)
    written = ReportFiles(
        html=out_dir / "report.html", json=out_dir / "summary.json", csv=out_dir / "summary.csv"
    )
    html = page(summary, results_dir, out_dir)
    write_text(written.json, summary_json(summary))
    write_text(written.csv, summary_csv(summary))
    write_text(written.html, html)
    return written


def write_report(results_dir: Path, rates: Rates = NOT_KNOWN) -> ReportFiles:
    """Write the report of a site (results/<site>) beside its runs, from its `tables`."""
    return make_report(results_dir / "tables", results_dir, results_dir, rates)

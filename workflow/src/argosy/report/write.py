"""Write the files of a report."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from argosy.report.kept_reports import SUMMARY, keep_replaced, past_reports
from argosy.report.outputs.comparison import compare, findings
from argosy.report.outputs.comparison_table import comparison_table
from argosy.report.outputs.summary_csv import summary_csv
from argosy.report.overview import comparison_drawing
from argosy.report.page.html import rendered
from argosy.report.page.page import page, with_excerpts
from argosy.report.summary.models import Summary, summary_json
from argosy.report.summary.parts import NOT_KNOWN, Rates
from argosy.report.summary.summarise import summarise
from argosy.report.topics.history.measure import with_history
from argosy_common.files import write_text


@dataclass(frozen=True)
class ReportFiles:
    """Paths of a report's files."""

    html: Path
    json: Path
    csv: Path
    left_out: list[str] = field(default_factory=list)
    """A message for each file of the history that is not in the report."""


def make_report(
    tables_dir: Path, results_dir: Path, out_dir: Path, rates: Rates = NOT_KNOWN
) -> ReportFiles:
    """Write report.html, summary.json and summary.csv to `out_dir`, each atomically.

    The same tables, history and logs give the same bytes. A summary.json whose runs are not all in the new
    one moves to the history in `out_dir`.

    Args:
        tables_dir: The tables; findings from steps are cached there if it is writable.
        results_dir: Base of the paths of failures' logs, whose ends the page shows.

    Raises:
        ResultsError: A table is missing or has another version.
    """
    summary = summarise(tables_dir, rates)
    past = past_reports(out_dir)
    summary = with_history(summary, keep_replaced(out_dir, summary, past.summaries))
    summary = replace(summary, failures=[*with_excerpts(summary.failures, results_dir)])
    written = ReportFiles(
        html=out_dir / "report.html",
        json=out_dir / SUMMARY,
        csv=out_dir / "summary.csv",
        left_out=past.left_out,
    )
    # The summary is last, so that its page is there, even if the disk is full.
    write_text(written.html, page(summary, results_dir, out_dir))
    write_text(written.csv, summary_csv(summary))
    write_text(written.json, summary_json(summary))
    return written


def write_comparison(summaries: Mapping[str, Summary], target: Path) -> None:
    """Write the page that compares summaries, given by the sites' names, the reference first."""
    content = rendered(
        "comparison.html.j2",
        comparison=compare(summaries),
        findings=findings,
        drawing=comparison_drawing,
        table=comparison_table,
    )
    write_text(target, content)


def write_report(results_dir: Path, rates: Rates = NOT_KNOWN) -> ReportFiles:
    """Write the report of a site into results/<site>, from the `tables` there."""
    return make_report(results_dir / "tables", results_dir, results_dir, rates)

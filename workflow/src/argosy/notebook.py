"""A study's results for a notebook: the numbers of its report, and its tables.

from argosy.notebook import read_results
study = read_results("results/mycluster")
study.tables.table("steps").df()
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from argosy.report.kept_reports import read_report
from argosy.results.tables import open_tables
from argosy_common.errors import ArgosyError, choices

if TYPE_CHECKING:
    import duckdb

    from argosy.report.summary.models import Summary


@dataclass(frozen=True)
class StudyResults:
    """The results of one site."""

    summary: "Summary"
    """Numbers of the report with their intervals (docs/summary.schema.json)."""
    tables: "duckdb.DuckDBPyConnection"
    """A database with a view for each table (docs/how-the-numbers-are-made.md). `df` (pandas), `pl`
    (polars) and `to_arrow_table` convert a relation to a data frame, if that library is installed."""

    def __repr__(self) -> str:
        """Return only sites and experiments: all numbers would fill a notebook."""
        names = [one.experiment for one in self.summary.experiments]
        return f"StudyResults(sites={self.summary.sites}, experiments={names})"


def read_results(folder: str | Path) -> StudyResults:
    """Read the report and open the tables of a site.

    Args:
        folder: the site's results, for example `results/mycluster`.

    Returns:
        The summary, and the tables, which are read only by queries.

    Raises:
        ArgosyError: if the folder is not a site's, has no report, or has a report or tables of another
            version of Argosy.
    """
    path = Path(folder)
    sites = sorted(str(each.parent) for each in path.glob("*/summary.json"))
    if sites and not (path / "summary.json").exists():
        raise ArgosyError(f"{path}: this is not a folder of a site's results", choices(sites, ""))
    _, summary = read_report(path)
    return StudyResults(summary, open_tables(path / "tables"))

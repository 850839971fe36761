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
    """What one site's folder of results holds."""

    summary: "Summary"
    """The numbers of the report with their intervals, as docs/summary.schema.json describes them."""
    tables: "duckdb.DuckDBPyConnection"
    """A database with a view for each table (docs/how-the-numbers-are-made.md). A relation of it becomes a
    data frame by `df` (pandas), `pl` (polars) or `to_arrow_table`, where that library is installed."""

    def __repr__(self) -> str:
        """Return its sites and experiments: all numbers would fill a notebook."""
        names = [one.experiment for one in self.summary.experiments]
        return f"StudyResults(sites={self.summary.sites}, experiments={names})"


def read_results(folder: str | Path) -> StudyResults:
    """Read the report and open the tables of a site.

    Args:
        folder: of the site, for example `results/mycluster`.

    Returns:
        The summary, and the tables, of which nothing is read before a query.

    Raises:
        ArgosyError: the folder is none of a site, it has no report, or another version of Argosy wrote the
            report or the tables.
    """
    path = Path(folder)
    sites = sorted(str(each.parent) for each in path.glob("*/summary.json"))
    if sites and not (path / "summary.json").exists():
        raise ArgosyError(f"{path}: this is not a folder of a site's results", choices(sites, ""))
    _, summary = read_report(path)
    return StudyResults(summary, open_tables(path / "tables"))

"""From the files of runs to tidy, typed tables. See docs/run-folder.md and docs/report.md."""

from argosy.results.collect import collect
from argosy.results.errors import ResultsError

__all__ = ["ResultsError", "collect"]

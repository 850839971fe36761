"""Turns files of runs into tidy, typed tables (docs/run-folder.md, docs/how-the-numbers-are-made.md)."""

from argosy.results.collect import collect
from argosy.results.errors import ResultsError

__all__ = ["ResultsError", "collect"]

"""The error of this package."""

from argosy_common.errors import ArgosyError


class ResultsError(ArgosyError):
    """A run's file or a table is invalid or unreadable. Nothing was written; old tables stay."""

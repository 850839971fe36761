"""What is wrong with the files of a run, or with a table, in one line."""

from argosy_common.errors import ArgosyError


class ResultsError(ArgosyError):
    """A file that cannot be read as the contract says. Nothing was written; old tables stay."""

"""What the verdicts of completed runs call doubtful, in sentences."""

from argosy.report.summary.models import RunSummary


def remark(run: RunSummary) -> str | None:
    """Return what is doubtful of a run; None without anything."""
    return " ".join(f"{each[:1].upper()}{each[1:]}." for each in run.remarks) or None

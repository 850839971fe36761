"""Losses and other metrics that are NaN or infinite, in words."""

from argosy.report.numbers import duration
from argosy.report.summary.models import RunSummary
from argosy.report.topics.doubts import NotFinite


def first_remark(run: RunSummary) -> str | None:
    """Return the sentence on the first metric of a run that is not finite; None without any."""
    return remark(run.not_finite[0]) if run.not_finite else None


def remarks(run: RunSummary) -> list[str]:
    """Return a sentence for each metric of a run that is not finite."""
    return [remark(one) for one in run.not_finite]


def remark(one: NotFinite) -> str:
    """Return the sentence on what is not finite, and from when."""
    what = f"a loss is not finite ({one.value})" if one.is_printed else f"{one.name} is {one.value}"
    since = [] if one.step is None else [f"from step {one.step} on"]
    since += [] if one.at_s is None else [f"{duration(max(0.0, one.at_s))} after the start"]
    others = f", and {one.ranks - 1} more of its ranks" if one.ranks > 1 else ""
    return f"{what[0].upper()}{what[1:]} on rank {one.rank}{others}, {', '.join(since)}.".replace(
        ", .", "."
    )

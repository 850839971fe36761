"""What is said above the answer: what was run, where, when, and how much of it completed."""

from collections.abc import Iterable

from argosy.report.numbers import NONE, moment
from argosy.report.summary.models import ExperimentSummary, RunSummary, Summary

_DIGITS = 8


def facts(summary: Summary, experiment: ExperimentSummary) -> list[str]:
    """Return the kind of scaling, the site, completed and planned runs, the date, and the image."""
    is_network = experiment.allreduces and not experiment.base
    completed, planned = experiment.states.get("completed", 0), sum(experiment.states.values())
    runs = [run for run in summary.runs if run.counts_to == experiment.experiment]
    return [
        "allreduces alone" if is_network else f"{experiment.scaling} scaling",
        *summary.sites,
        f"{completed} of {planned} runs completed",
        *_dates(runs),
        _image(experiment.setup.image),
    ]


def footer(summary: Summary) -> str:
    """Return the dates and the digest of the study, made of digits and plain words alone."""
    digest = (summary.inputs or "").removeprefix("sha256:")
    study = [f"study {digest[:_DIGITS]}"] if digest.isalnum() and digest.isascii() else []
    return " · ".join(["Argosy", *_dates(summary.runs), *study])


def _dates(runs: Iterable[RunSummary]) -> list[str]:
    """Return the days on which runs started, first to last, or nothing."""
    starts = [run.started_unix_s for run in runs if run.started_unix_s is not None]
    days = [moment(one).partition(" ")[0] for one in (min(starts), max(starts))] if starts else []
    if NONE in days or not days:
        return []
    return [days[0] if days[0] == days[1] else f"{days[0]} to {days[1]}"]


def _image(image: str | None) -> str:
    if image is None:
        return "no container"
    name, _, digest = image.rpartition(" ")
    return f"image {name} {digest.removeprefix('sha256:')[:_DIGITS]}"

"""Setups in words: commands, images, sites, dates, and differences."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from argosy.report.numbers import NONE, count, moment
from argosy.report.runs.setups import told
from argosy.report.summary.models import ExperimentSummary, RunSummary, Summary

_DIGEST = re.compile(r"(sha256:[0-9a-f]{12})[0-9a-f]{52}")
_LONGEST = 200


def shown(text: str) -> str:
    """Shorten digests and long commands for a sentence."""
    text = _DIGEST.sub(r"\1", text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def mixtures(summary: Summary) -> list[str]:
    """Return a sentence for each experiment with several setups: their names and differences."""
    by_name: defaultdict[str, list[ExperimentSummary]] = defaultdict(list)
    for experiment in summary.experiments:
        by_name[experiment.asked_experiment].append(experiment)
    return [_mixture(name, several) for name, several in by_name.items() if len(several) > 1]


def _mixture(name: str, several: Sequence[ExperimentSummary]) -> str:
    setups = [dict(told(each.setup)) for each in several]
    apart = [what for what in _names(setups) if len({setup.get(what) for setup in setups}) > 1]
    kinds = "; ".join(
        f"{each.experiment}, {count(each.states.get('completed', 0), 'completed run')}: "
        + ", ".join(f"{what} {shown(setup.get(what, 'none'))}" for what in apart)
        for each, setup in zip(several, setups, strict=True)
    )
    return (
        f"The runs of {name} are not repeats of each other: they differ in {' and '.join(apart)}. "
        f"They are not averaged, but reported separately. {kinds}."
    )


def _names(setups: Iterable[Mapping[str, str]]) -> list[str]:
    return [*dict.fromkeys(what for setup in setups for what in setup)]


_DIGITS = 8


_BOUND = {"core": "cores", "numa": "NUMA domains"}


def facts(summary: Summary, experiment: ExperimentSummary) -> list[str]:
    """Return the kind of scaling, the site, completed and planned runs, the date, and the image."""
    is_network = experiment.allreduces and not experiment.base
    completed, planned = experiment.states.get("completed", 0), sum(experiment.states.values())
    runs = [run for run in summary.runs if run.counts_to == experiment.experiment]
    return [
        "allreduce benchmark" if is_network else f"{experiment.scaling} scaling",
        *summary.sites,
        f"{completed} of {planned} runs completed",
        *_dates(runs),
        _image(experiment.setup.image),
        *(f"ranks bound to {_BOUND[bind]}" for bind in [experiment.setup.bind] if bind in _BOUND),
    ]


def footer(summary: Summary) -> str:
    """Return the footer: dates and the study's digest, safe to insert into a style sheet."""
    digest = (summary.inputs or "").removeprefix("sha256:")
    study = [f"study {digest[:_DIGITS]}"] if digest.isalnum() and digest.isascii() else []
    return " · ".join(["Argosy", *_dates(summary.runs), *study])


def _dates(runs: Iterable[RunSummary]) -> list[str]:
    """Return the first and last day of starts as one text, or an empty list."""
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

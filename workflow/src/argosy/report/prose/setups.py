"""What was run, in plain words."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from argosy.report.numbers import count
from argosy.report.runs.setups import told
from argosy.report.summary.models import ExperimentSummary, Summary

_DIGEST = re.compile(r"(sha256:[0-9a-f]{12})[0-9a-f]{52}")
_LONGEST = 200


def shown(text: str) -> str:
    """Return a value of a setup as a sentence may have it: digests and long commands are cut short."""
    text = _DIGEST.sub(r"\1", text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def mixtures(summary: Summary) -> list[str]:
    """Return what differs between the setups of each experiment that has several, and their names."""
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
        f"They are not averaged, but told apart. {kinds}."
    )


def _names(setups: Iterable[Mapping[str, str]]) -> list[str]:
    return [*dict.fromkeys(what for setup in setups for what in setup)]

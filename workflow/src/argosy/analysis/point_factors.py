"""The factors of a point's efficiency, over its repeats and those of the base case."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from argosy.analysis.factors import COMMUNICATION, DATA, RankTimes, factors
from argosy.analysis.phases import OTHER
from argosy.analysis.statistics import Estimate, log_difference_estimate

NAMES = ("load_balance", COMMUNICATION, DATA, "computation", "efficiency")
"""The last is the product of the others."""


def point_factors(runs: Sequence[RankTimes], base: Sequence[RankTimes]) -> Mapping[str, Estimate]:
    """Each factor as a geometric mean over all pairs of a run and a run of the base.

    Geometric means multiply as the factors do: the product of all is `efficiency`, exactly. A factor
    that not all of these runs recorded is left out; what it would say is in `computation` then.
    """
    hidden = {name for name in (COMMUNICATION, DATA) if not _all_record(name, [*runs, *base])}
    pairs = [[factors(_hide(run, hidden), _hide(one, hidden)) for one in base] for run in runs]
    found = {}
    for name in NAMES:
        if name not in hidden:
            logs = np.log([[getattr(pair, name) for pair in row] for row in pairs])
            found[name] = log_difference_estimate(logs)
    return found


def _all_record(phase: str, runs: Sequence[RankTimes]) -> bool:
    return all(phase in run.phases_s for run in runs)


def _hide(run: RankTimes, phases: set[str]) -> RankTimes:
    """The run as if it had not told these phases from the rest."""
    shown = {name: seconds for name, seconds in run.phases_s.items() if name not in phases}
    for name in phases & set(run.phases_s):
        shown[OTHER] = shown.get(OTHER, np.zeros(run.samples.shape)) + run.phases_s[name]
    return replace(run, phases_s=shown)

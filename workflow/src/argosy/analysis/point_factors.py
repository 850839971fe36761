"""The factors of a point's efficiency, over its repeats and those of the base case."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from argosy.analysis.factors import COMMUNICATION, DATA, RankTimes, terms
from argosy.analysis.statistics import Estimate, log_difference_estimate

NAMES = ("load_balance", COMMUNICATION, DATA, "computation", "efficiency")
"""The last is the product of the others."""


def point_factors(runs: Sequence[RankTimes], base: Sequence[RankTimes]) -> Mapping[str, Estimate]:
    """Each factor as a geometric mean over all pairs of a run and a run of the base.

    Geometric means multiply as the factors do: the product of all is `efficiency`, exactly. A factor
    that not all of these runs recorded is left out; what it would say is in `computation` then.
    """
    everywhere = set[str].intersection(*(set(run.phases_s) for run in (*runs, *base)))
    recorded = {COMMUNICATION, DATA} & everywhere
    here = [terms(run, recorded) for run in runs]
    there = [terms(run, recorded) for run in base]
    return {
        name: log_difference_estimate(np.subtract.outer(_logs(here, name), _logs(there, name)))
        for name in NAMES
        if name in recorded or name not in (COMMUNICATION, DATA)
    }


def _logs(found: Sequence[Mapping[str, float]], name: str) -> list[float]:
    return [math.log(each[name]) for each in found]

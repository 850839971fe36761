"""The factors of a point's efficiency, over its repeats and those of the base case."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from argosy.analysis.factors import COMMUNICATION, DATA, RankTimes, terms
from argosy.analysis.statistics import Estimate, log_difference_estimate

NAMES = ("load_balance", COMMUNICATION, DATA, "computation", "efficiency")
"""The last is the product of the others."""


def point_factors(runs: Sequence[RankTimes], base: Sequence[RankTimes]) -> Mapping[str, Estimate]:
    """Return each factor's geometric mean over all pairs of a run and one of the base; 1: as good as there.

    `load_balance`: mean own work over that of the rank with the most.
    `communication`: the most own work of a rank over the job's time. The rest is time in which even
    the busiest rank communicated or waited.
    `data`: the part of own work in which a rank did not wait for data.
    `computation`: useful seconds of a sample in the base over those here. It falls when ranks
    disturb each other or a smaller batch uses the processor worse; it is above 1 when caches hold
    more of a smaller share. Any other factor above 1 says that the base was worse in it.
    `efficiency`: throughput per rank over that of the base. Geometric means multiply as the factors do, so
    this is the product of the others, exactly.

    What not all of these runs recorded is left out. Communication then lies in the phase that hides
    it (backward, with Horovod's hooks), so that `computation` falls with it and `load_balance` knows
    only the differences between the ranks' ends; waiting for data is then part of `computation` too.

    Raises:
        ValueError: a run's arrays have different shapes, negative values, no samples or no useful time.
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

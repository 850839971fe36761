"""The factors of a point's efficiency, over its repeats and those of the base case."""

from collections.abc import Mapping, Sequence

import numpy as np

from argosy.analysis.factors import COMMUNICATION, DATA, RankTimes, terms
from argosy.analysis.statistics import (
    Estimate,
    log_difference_estimate,
    paired_ratio_estimate,
)

NAMES = ("load_balance", COMMUNICATION, DATA, "computation", "efficiency")
"""The last is the product of the others."""


def point_factors(
    runs: Sequence[RankTimes], base: Sequence[RankTimes], *, paired: bool = False
) -> Mapping[str, Estimate]:
    """Return each factor's geometric mean over all pairs of a run and one of the base; 1: as good as there.

    `paired`: both are in the order of the blocks in which they ran (`blocks`); intervals are of pairs then.

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
        name: _estimate([each[name] for each in here], [each[name] for each in there], paired)
        for name in NAMES
        if name in recorded or name not in (COMMUNICATION, DATA)
    }


def _estimate(here: Sequence[float], there: Sequence[float], paired: bool) -> Estimate:
    if paired:
        return paired_ratio_estimate(here, there)
    return log_difference_estimate(np.subtract.outer(np.log(here), np.log(there)))

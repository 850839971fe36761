"""Why efficiency is lost: factors whose product is the efficiency.

The multiplicative model of Rosas, Giménez and Labarta, "Scalability Prediction for Fundamental
Performance Factors", Supercomputing Frontiers and Innovations 1(2), 2014, as POP's metrics have it,
for what the step recorder knows of data-parallel training. Of each rank r, over the same steps:

    T_r  all its time                             D_r  waiting for data
    W_r  its own work, all but communication      U_r = W_r - D_r  useful computation
    S    samples of all ranks together            R    the number of ranks

A job takes as long as its slowest rank, so its throughput per rank is x = S / (R max T). With the
means over ranks this is a product in which each denominator is the next numerator:

    x = S/(R mean U) · mean U/mean W · mean W/max W · max W/max T
        computation    data            load balance   communication

The last three are shares from 0 to 1 and are the parallel efficiency. Each divided by that of the
base case gives a factor, and the product of the four factors is x / x_base, exactly.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

COMMUNICATION = "communication"
DATA = "data"


@dataclass(frozen=True)
class RankTimes:
    """What the ranks of a run did over its steps, warm-up left out.

    `phases_s` has the summed seconds of each phase that any rank recorded, and of `other`, in
    arrays of shape (ranks,); together they are all the time of a rank. `samples` has that shape.
    """

    phases_s: Mapping[str, NDArray[np.float64]]
    samples: NDArray[np.float64]


def terms(run: RankTimes, recorded: set[str]) -> dict[str, float]:
    """Return the four terms of the throughput per rank, and that itself as `efficiency`.

    What is not `recorded` counts as useful.

    Raises:
        ValueError: arrays of different shapes, negative values, no samples or no useful time.
    """
    phases_s = _checked(run)
    all_s = phases_s.sum(axis=0)
    is_work = [name != COMMUNICATION or name not in recorded for name in run.phases_s]
    is_useful = [name not in recorded for name in run.phases_s]
    work_s, useful_s = phases_s[is_work].sum(axis=0), phases_s[is_useful].sum(axis=0)
    ranks, samples, useful = all_s.size, run.samples.sum(), useful_s.sum()
    if not useful > 0:
        raise ValueError("no rank has any useful time")
    work, most_work_s, most_s = work_s.sum(), work_s.max(), all_s.max()
    return {
        "computation": float(samples / useful),
        "data": float(useful / work),
        "load_balance": float(work / ranks / most_work_s),
        "communication": float(most_work_s / most_s),
        "efficiency": float(samples / ranks / most_s),
    }


def _checked(run: RankTimes) -> NDArray[np.float64]:
    """Return seconds of all phases, of shape (phases, ranks)."""
    shapes = {run.samples.shape, *(seconds.shape for seconds in run.phases_s.values())}
    if len(shapes) > 1 or run.samples.ndim != 1:
        raise ValueError(f"ranks' arrays of different shapes: {sorted(shapes)}")
    phases_s = np.array([*run.phases_s.values()], np.float64).reshape(-1, run.samples.size)
    if phases_s.size and phases_s.min() < 0:
        raise ValueError("a phase took less than 0 s")
    if not run.samples.sum() > 0:
        raise ValueError("no rank has any samples")
    return phases_s

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
    """The four terms of the throughput per rank, and that itself as `efficiency`.

    What is not `recorded` counts as useful.

    Raises:
        ValueError: arrays of different shapes, negative values, no samples or no useful time.
    """
    _check(run)
    all_s = _seconds(run, set())
    work_s = _seconds(run, recorded & {COMMUNICATION})
    useful_s = _seconds(run, recorded)
    if not useful_s.sum() > 0:
        raise ValueError("no rank has any useful time")
    return {
        "computation": float(run.samples.sum() / useful_s.sum()),
        "data": float(useful_s.mean() / work_s.mean()),
        "load_balance": float(work_s.mean() / work_s.max()),
        "communication": float(work_s.max() / all_s.max()),
        "efficiency": float(run.samples.mean() / all_s.max()),
    }


def _seconds(run: RankTimes, without: set[str]) -> NDArray[np.float64]:
    """Seconds of each rank in all phases but some, of shape (ranks,)."""
    kept = [seconds for name, seconds in run.phases_s.items() if name not in without]
    return np.sum(kept, axis=0) if kept else np.zeros(run.samples.shape)


def _check(run: RankTimes) -> None:
    shapes = {run.samples.shape, *(seconds.shape for seconds in run.phases_s.values())}
    if len(shapes) > 1 or run.samples.ndim != 1:
        raise ValueError(f"ranks' arrays of different shapes: {sorted(shapes)}")
    if any(seconds.size and seconds.min() < 0 for seconds in run.phases_s.values()):
        raise ValueError("a phase took less than 0 s")
    if not run.samples.sum() > 0:
        raise ValueError("no rank has any samples")

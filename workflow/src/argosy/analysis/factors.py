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


@dataclass(frozen=True)
class Factors:
    """What became of the efficiency, relative to the base case: 1 is as good as there.

    `load_balance`: mean own work over that of the rank with the most.
    `communication`: the most own work of a rank over the job's time. The rest is time in which even
    the busiest rank communicated or waited.
    `data`: the part of own work in which a rank did not wait for data.
    `computation`: useful seconds of a sample in the base over those here. It falls when ranks
    disturb each other or a smaller batch uses the processor worse; it is above 1 when caches hold
    more of a smaller share. Any other factor above 1 says that the base was worse in it.

    `communication` is None when the run or the base records none; it then lies in the phase that
    hides it (backward, with Horovod's hooks), so that `computation` falls with it and `load_balance`
    knows only the differences between the ranks' ends. `data` is None when either records none; it
    is then part of `computation` too. The product remains exact: `efficiency`, which is throughput
    per rank over that of the base.
    """

    load_balance: float
    communication: float | None
    data: float | None
    computation: float
    efficiency: float


def factors(run: RankTimes, base: RankTimes) -> Factors:
    """The factors of a run's efficiency against a base case; for the base itself all are 1.

    Raises ValueError for arrays of different shapes, negative values, no samples or no useful time.
    """
    recorded = {name for name in (COMMUNICATION, DATA) if _record(name, run, base)}
    here, there = terms(run, recorded), terms(base, recorded)
    ratio = {name: here[name] / there[name] for name in here}
    return Factors(
        load_balance=ratio["load_balance"],
        communication=ratio["communication"] if COMMUNICATION in recorded else None,
        data=ratio["data"] if DATA in recorded else None,
        computation=ratio["computation"],
        efficiency=ratio["efficiency"],
    )


def _record(phase: str, *runs: RankTimes) -> bool:
    return all(phase in run.phases_s for run in runs)


def terms(run: RankTimes, recorded: set[str]) -> dict[str, float]:
    """The four terms of the throughput per rank, and that itself as `efficiency`.

    What is not `recorded` counts as useful. Raises ValueError as `factors` does.
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

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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from argosy.report.numbers import interval, number, samples
from argosy.report.runs.steady import OTHER
from argosy.report.runs.study_tables import StudyTables
from argosy.report.sizes import size
from argosy.report.statistics.estimates import (
    Estimate,
    log_difference_estimate,
    paired_ratio_estimate,
    together,
)
from argosy.report.summary.models import ExperimentSummary, PointSummary, Summary
from argosy.report.table import Cell, Quantity, Table, column, estimate, in_order, size_columns
from argosy.results.tables import PHASES

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


_LISTS = ", ".join(
    f"list(coalesce({name}, 0) ORDER BY rank) FILTER (run_has_{name}) AS {name}" for name in PHASES
)
_HAS = ", ".join(
    f"count({name}) OVER (PARTITION BY experiment, run_id) > 0 AS run_has_{name}" for name in PHASES
)

_QUERY = f"""
WITH told AS (
    SELECT *, {_HAS} FROM steady_rank
)
SELECT experiment, run_id, list(samples ORDER BY rank) AS samples,
    list({OTHER} ORDER BY rank) AS {OTHER}, {_LISTS}
FROM told JOIN runs USING (experiment, run_id)
WHERE state = 'completed' AND len(missing_ranks) = 0
GROUP BY ALL ORDER BY experiment, run_id
"""


def rank_times(tables: StudyTables) -> Mapping[tuple[str, str], RankTimes]:
    """Return the throughput by experiment and run_id, of each completed run with samples and all its ranks.

    A phase that no rank of a run recorded is not among its phases; what no phase covers is `other`.
    """
    return {
        (row["experiment"], row["run_id"]): _times(row)
        for row in tables.fetch(_QUERY)
        if sum(row["samples"]) > 0
    }


def _times(row: Mapping[str, Any]) -> RankTimes:
    recorded = {name: row[name] for name in (*PHASES, OTHER) if row[name] is not None}
    return RankTimes(
        phases_s={name: np.asarray(seconds, np.float64) for name, seconds in recorded.items()},
        samples=np.asarray(row["samples"], np.float64),
    )


_SMALLER = 0.95
"""Batches above this share of the base's are taken for as large."""
LEAST_LOSS = 0.02
"""A factor nearer to 1 is not worth a sentence."""
_LOSSES = {
    "load_balance": "load imbalance",
    "communication": "communication",
    "data": "waiting for data",
    "computation": "slower computation",
}


_LOST_ALL = 0.6
"""The loss of a factor that has the deepest shade."""
_DEEPEST = 40
"""Per cent of colour, on which text can still be read."""


def tables(experiment: ExperimentSummary) -> Iterator[Table]:
    """Yield the factors of efficiency of each size, where any are known."""
    points = [point for point in experiment.points if point.factors]
    if not points:
        return
    yield Table(
        [
            *size_columns(points),
            *(
                column(
                    points,
                    name.replace("_", " "),
                    partial(_factor, name),
                    paper=name.replace("_", " ").capitalize(),
                )
                for name in factor_names(experiment)
            ),
        ],
        "Efficiency factors relative to the base, and their product; ▼ marks the greatest "
        "significant loss of a size.",
        f"Factors of efficiency of {experiment.experiment}",
        "factors",
        kind="heat",
        paper="factors of the efficiency",
    )


def _factor(name: str, point: PointSummary) -> Cell:
    factor = point.factors.get(name)
    lost = min(max(1 - factor.mean, 0.0) / _LOST_ALL, 1.0) if factor else None
    return replace(
        estimate(factor),
        loss=None if lost is None else round(_DEEPEST * lost),
        is_worst=name == worst_factor(point),
    )


def factor_names(experiment: ExperimentSummary) -> list[str]:
    """Return the factors of efficiency that any point of the experiment has, their product last."""
    return in_order(NAMES, (point.factors for point in experiment.points))


def worst_factor(point: PointSummary) -> str | None:
    """Return the name of a size's smallest factor among those surely below 1; None where none is."""
    below = {
        name: factor.mean
        for name, factor in point.factors.items()
        if name != NAMES[-1] and factor.high is not None and factor.high < 1
    }
    return min(below, key=lambda name: below[name], default=None)


@dataclass(frozen=True)
class Loss:
    """The factor by which the largest size loses most of its efficiency, beyond chance."""

    name: str
    point: PointSummary
    factor: Estimate

    @property
    def what(self) -> str:
        """Its name in words."""
        return _LOSSES[self.name]


def largest_loss(experiment: ExperimentSummary) -> Loss | None:
    """Return by what most of the efficiency is lost at the largest size; None where nothing is shown."""
    compared = [one for one in experiment.points if one.speed_up]
    name = worst_factor(compared[-1]) if compared else None
    if name is None:
        return None
    # The worst of several is chosen, so all of them have to hold together.
    worst = together(compared[-1].factors[name], len(compared[-1].factors) - 1)
    # Beyond chance: the interval says that it is a loss at all.
    if worst.mean > 1 - LEAST_LOSS or worst.high is None or worst.high >= 1:
        return None
    return Loss(name, compared[-1], worst)


def loss_sentence(experiment: ExperimentSummary, base: PointSummary, loss: Loss) -> str:
    what = loss.what[0].upper() + loss.what[1:]
    smaller = _smaller_batch(experiment, base, loss.point) if loss.name == "computation" else ""
    return (
        f"{what} is the main loss with {size(experiment, loss.point)}: an efficiency factor of "
        f"{number(loss.factor.mean)} ({interval(loss.factor)}).{smaller}"
    )


def _smaller_batch(experiment: ExperimentSummary, base: PointSummary, largest: PointSummary) -> str:
    """Return the sentence that the ranks' batches are smaller than in the base, where they are."""
    here, there = largest.samples_per_step, base.samples_per_step
    if here is None or there is None or here > _SMALLER * there:
        return ""
    return (
        f" Each rank's batch is {samples(here)} samples, compared with {samples(there)} on "
        f"{size(experiment, base)}: smaller batches compute less efficiently."
    )


def methods(summary: Summary) -> Iterator[str]:
    """Yield what factors of the efficiency are, where there are any."""
    if any(one.factors for one in summary.points):
        yield (
            "Factors are geometric means over runs, relative to the base. Their product is "
            "exactly the efficiency."
        )


def quantities(point: PointSummary) -> Iterator[Quantity]:
    """Yield the rows of summary.csv."""
    return ((f"factor_{name}", "1", value) for name, value in point.factors.items())

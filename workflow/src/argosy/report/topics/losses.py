"""Factors of the efficiency, whose product is the efficiency.

This is the multiplicative model of POP's metrics (Rosas, Giménez and Labarta, "Scalability Prediction for
Fundamental Performance Factors", Supercomputing Frontiers and Innovations 1(2), 2014), applied to the step
records of data-parallel training. For each rank r, over the same steps:

    T_r  total time                               D_r  waiting for data
    W_r  own work, all except communication       U_r = W_r - D_r  useful computation
    S    samples of all ranks together            R    number of ranks

A job takes as long as its slowest rank, so its throughput per rank is x = S / (R max T). With means over
ranks this is a product in which each denominator is the next numerator:

    x = S/(R mean U) · mean U/mean W · mean W/max W · max W/max T
        computation    data            load balance   communication

The product of the last three, shares from 0 to 1, is the parallel efficiency. Each term divided by the
base's is a factor, and the product of the four factors is exactly x / x_base.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from argosy.report.numbers import interval, mean_text, samples
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
    """Times of a run's ranks, without warm-up; arrays have the shape (ranks,).

    `phases_s` has the total seconds of each recorded phase and of `other`; their sum is all time of a rank.
    """

    phases_s: Mapping[str, NDArray[np.float64]]
    samples: NDArray[np.float64]


def terms(run: RankTimes, recorded: set[str]) -> dict[str, float]:
    """Return the four terms of the throughput per rank, and their product as `efficiency`.

    Phases that are not `recorded` count as useful.

    Raises:
        ValueError: Shapes differ, values are negative, or there are no samples or no useful time.
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
"""Names of factors; the last is the product of the others."""


def point_factors(
    runs: Sequence[RankTimes], base: Sequence[RankTimes], *, paired: bool = False
) -> Mapping[str, Estimate]:
    """Return each factor's geometric mean over all pairs of a run and a base run; 1 equals the base.

    * `load_balance`: Mean own work divided by the busiest rank's.
    * `communication`: Own work of the busiest rank divided by the job's time. The rest is communication or
      waiting even on this rank.
    * `data`: Share of own work without waiting for data.
    * `computation`: Useful seconds per sample in the base divided by those here. It falls if ranks disturb
      each other or a smaller batch is less efficient. It is above 1 if a smaller share fits caches better.
    * `efficiency`: Throughput per rank relative to the base, exactly the product of the others.

    Any factor above 1 was worse in the base. Factors of phases that not all runs recorded are omitted.
    Communication is then part of the phase that hides it (backward, with Horovod's hooks): it lowers
    `computation`, and `load_balance` is based on the ranks' ends only. Waiting for data is then part of
    `computation`.

    Args:
        paired: Whether both are ordered by the same blocks, so that intervals are of pairs.

    Raises:
        ValueError: Shapes differ, values are negative, or there are no samples or no useful time.
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
    """Return the ranks' times of each completed run with samples and records of all ranks.

    Phases that no rank recorded are absent; `other` is the time outside all phases.
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
"""Ratio of batches to the base's below which they count as smaller."""
LEAST_LOSS = 0.02
"""Smallest loss that is reported."""
_LOSSES = {
    "load_balance": "load imbalance",
    "communication": "communication",
    "data": "waiting for data",
    "computation": "slower computation",
}


_LOST_ALL = 0.6
"""Loss that gets the deepest shade."""
_DEEPEST = 40
"""Deepest shade, in per cent of colour, on which text is readable."""


def tables(experiment: ExperimentSummary) -> Iterator[Table]:
    """Yield the table of efficiency factors, if there are any."""
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
    """Return the factors that any point of the experiment has, their product last."""
    return in_order(NAMES, (point.factors for point in experiment.points))


def worst_factor(point: PointSummary) -> str | None:
    """Return the name of a size's smallest factor significantly below 1, or None."""
    below = {
        name: factor.mean
        for name, factor in point.factors.items()
        if name != NAMES[-1] and factor.high is not None and factor.high < 1
    }
    return min(below, key=lambda name: below[name], default=None)


@dataclass(frozen=True)
class Loss:
    """The smallest factor of the largest size, significantly below 1."""

    name: str
    point: PointSummary
    factor: Estimate

    @property
    def what(self) -> str:
        """Its name in words."""
        return _LOSSES[self.name]


def largest_loss(experiment: ExperimentSummary) -> Loss | None:
    """Return the main loss of the largest size; None without a significant one."""
    compared = [one for one in experiment.points if one.speed_up]
    name = worst_factor(compared[-1]) if compared else None
    if name is None:
        return None
    # The worst of several is selected, so their intervals must be simultaneous.
    worst = together(compared[-1].factors[name], len(compared[-1].factors) - 1)
    if worst.mean > 1 - LEAST_LOSS or worst.high is None or worst.high >= 1:
        return None
    return Loss(name, compared[-1], worst)


def loss_sentence(experiment: ExperimentSummary, base: PointSummary, loss: Loss) -> str:
    what = loss.what[0].upper() + loss.what[1:]
    smaller = _smaller_batch(experiment, base, loss.point) if loss.name == "computation" else ""
    return (
        f"{what} is the main loss with {size(experiment, loss.point)}: an efficiency factor of "
        f"{mean_text(loss.factor)} ({interval(loss.factor)}).{smaller}"
    )


def _smaller_batch(experiment: ExperimentSummary, base: PointSummary, largest: PointSummary) -> str:
    """Return a sentence if the ranks' batches are smaller than in the base."""
    here, there = largest.samples_per_step, base.samples_per_step
    if here is None or there is None or here > _SMALLER * there:
        return ""
    return (
        f" Each rank's batch is {samples(here)} samples, compared with {samples(there)} on "
        f"{size(experiment, base)}: smaller batches compute less efficiently."
    )


def methods(summary: Summary) -> Iterator[str]:
    """Describe the factors of the efficiency, if there are any."""
    if any(one.factors for one in summary.points):
        yield (
            "Factors are geometric means over runs, relative to the base. Their product is "
            "exactly the efficiency."
        )


def quantities(point: PointSummary) -> Iterator[Quantity]:
    """Yield the rows of summary.csv."""
    return ((f"factor_{name}", "1", value) for name, value in point.factors.items())

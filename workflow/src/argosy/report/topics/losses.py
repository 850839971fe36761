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

import numpy as np

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
    """Times of a run's ranks in s, without warm-up; sums over ranks, except of single ranks.

    Args:
        useful_s: Neither communication nor waiting for data.
        data_s: None if no rank recorded the phase; `communication_s` likewise.
        busiest_s: Own work of the busiest rank.
        slowest_s: All time of the slowest rank.
    """

    ranks: int
    samples: float
    useful_s: float
    data_s: float | None
    communication_s: float | None
    busiest_s: float
    slowest_s: float

    @property
    def recorded(self) -> set[str]:
        """The recorded phases among communication and waiting for data."""
        times = {COMMUNICATION: self.communication_s, DATA: self.data_s}
        return {name for name, seconds in times.items() if seconds is not None}


def terms(run: RankTimes, recorded: set[str]) -> dict[str, float]:
    """Return the four terms of the throughput per rank, and their product as `efficiency`.

    Phases that are not `recorded` count as useful.
    """
    data_s = run.data_s or 0.0
    useful_s = run.useful_s + (0.0 if DATA in recorded else data_s)
    work_s, busiest_s = run.useful_s + data_s, run.busiest_s
    if COMMUNICATION not in recorded:
        hidden_s = run.communication_s or 0.0
        useful_s, work_s, busiest_s = useful_s + hidden_s, work_s + hidden_s, run.slowest_s
    return {
        "computation": run.samples / useful_s,
        "data": useful_s / work_s,
        "load_balance": work_s / run.ranks / busiest_s,
        "communication": busiest_s / run.slowest_s,
        "efficiency": run.samples / run.ranks / run.slowest_s,
    }


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
    """
    recorded = set[str].intersection(*(run.recorded for run in (*runs, *base)))
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


_USEFUL = " + ".join(f"coalesce({name}, 0)" for name in PHASES if name not in (COMMUNICATION, DATA))

_QUERY = f"""
WITH of_rank AS (
    SELECT *, {OTHER} + {_USEFUL} AS useful_s, useful_s + coalesce({DATA}, 0) AS work_s
    FROM steady_rank
)
SELECT experiment, run_id, count(*) AS ranks, sum(samples) AS samples, sum(useful_s) AS useful_s,
    sum({DATA}) AS data_s, sum({COMMUNICATION}) AS communication_s, max(work_s) AS busiest_s,
    max(work_s + coalesce({COMMUNICATION}, 0)) AS slowest_s
FROM of_rank JOIN runs USING (experiment, run_id)
WHERE state = 'completed' AND len(missing_ranks) = 0
GROUP BY experiment, run_id HAVING sum(samples) > 0 AND sum(useful_s) > 0
"""


def rank_times(tables: StudyTables) -> Mapping[tuple[str, str], RankTimes]:
    """Return the ranks' times of each completed run with samples, useful time and records of all ranks."""
    return {
        (row.pop("experiment"), row.pop("run_id")): RankTimes(**row) for row in tables.fetch(_QUERY)
    }


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
    several = len(loss.point.factors) - 1
    adjusted = f", adjusted for {several} factors" if several > 1 else ""
    return (
        f"{what} is the main loss with {size(experiment, loss.point)}: an efficiency factor of "
        f"{mean_text(loss.factor)} ({interval(loss.factor)}{adjusted}).{smaller}"
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

"""Throughput of each completed run, from its steps or printed numbers, or why it has none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from argosy.report.numbers import UNIT, count
from argosy.report.runs.study_tables import StudyTables
from argosy.report.runs.warmup import WarmUp, warm_up
from argosy.report.statistics.few_runs import slow_jobs

LEAST_RATIO = 1.5
"""Smallest ratio between two groups of numbers of different kinds."""
FEWEST_CHANGES = 3
"""Fewest changes between the groups; a single change is a change of pace."""
PLAUSIBLE = (1e-30, 1e30)
"""Plausible throughputs, in samples/s; calculations with others overflow."""
_STARTED = 0.2
"""Share of a run ignored at its start, where slow numbers may hide the groups."""
LEAST_INTERVAL_S = 0.01
"""Smallest median between numbers, in s; less means a flushed buffer with useless times."""
_FEWEST_INTERVALS = 3
_NEAREST = 0.9
"""Share of the intervals that is compared; the rest may contain evaluations or checkpoints."""

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class PrintedRate:
    """A run's throughput in samples/s, or why it has none (`left_out`); `warm_up` counts numbers."""

    samples_per_s: float | None = None
    warm_up: WarmUp | None = None
    left_out: str | None = None


def printed_rate(rates: Sequence[float], times: Sequence[float], unit: str = UNIT) -> PrintedRate:
    """Compute a run's throughput from the printed `rates` (`unit` per second) and their `times` (s).

    Leading zeros count as warm-up.
    """
    every, at = np.asarray(rates, dtype=np.float64), np.asarray(times, dtype=np.float64)
    if not every.any():
        return PrintedRate(left_out="it printed only 0 as throughput")
    if odd := implausible(*every[every != 0], unit=unit):
        return PrintedRate(left_out=f"it printed {odd}")
    begin = int(np.argmax(every > 0))
    rest = every[begin:]
    if unclear := _stopped(rest) or _two_kinds(rest):
        return PrintedRate(left_out=unclear)
    found = _warm_up(rest, begin)
    if found.left_out:
        return PrintedRate(warm_up=found, left_out=found.reason)
    rate = mean_rate(every, at, found.steps) * found.excess
    return PrintedRate(rate, found)


def _printed_by_all(prints: Sequence[Mapping[str, Any]], ranks: int, unit: str) -> PrintedRate:
    """Add up the rates of all printing ranks; each record is one rank's share of the job's rate."""
    found = [printed_rate(one["rates"], one["times"], unit) for one in prints]
    if len(found) < ranks:
        return PrintedRate(
            left_out=f"{ranks - len(found)} of its {ranks} ranks printed no throughput"
        )
    unclear = next((one for one in found if one.left_out), None)
    if unclear or len(found) == 1:
        return unclear or found[0]
    longest = max((one.warm_up for one in found if one.warm_up), key=lambda one: one.steps)
    return PrintedRate(sum(one.samples_per_s or 0.0 for one in found), longest)


def implausible(*rates: float, unit: str = UNIT) -> str | None:
    """Describe the first rate (`unit` per second) outside PLAUSIBLE; None if all are plausible."""
    low, high = PLAUSIBLE
    odd = next((rate for rate in rates if not low <= rate <= high), None)
    return None if odd is None else f"{odd:.3g} {unit} per second, which is not a throughput"


def mean_rate(rates: Vector, times: Vector, first: int) -> float:
    """Return the mean rate, from the `first` on, weighted by the work behind each number.

    Each number covers the time since the previous one. If they are printed every N steps, the work is equal
    and the harmonic mean is total work over total time. If their `times` are more regular than the work,
    the time is equal and the mean is arithmetic.
    """
    kept = rates[first:]
    if _at_equal_times(kept, np.diff(times[max(0, first - 1) :])):
        return float(kept.mean())
    return float(1 / (1 / kept).mean())


def _warm_up(rates: Vector, zeros: int) -> WarmUp:
    """Return the warm-up of rates that follow this many `zeros`."""
    if rates.size == 1:
        return WarmUp(zeros, True, "it printed one number")
    found = warm_up(1 / rates, of="print")
    if not zeros:
        return found
    reason = f"its first {zeros} printed numbers are 0; then {found.reason}"
    slower_from = None if found.slower_from is None else zeros + found.slower_from
    return replace(found, steps=zeros + found.steps, reason=reason, slower_from=slower_from)


def _stopped(rates: Vector) -> str | None:
    zeros = int((rates == 0).sum())
    if not zeros:
        return None
    return (
        f"{zeros} of its {rates.size} printed numbers are zeros between others, so it has no "
        "throughput"
    )


def _two_kinds(rates: Vector) -> str | None:
    """Return a message if the numbers alternate between two groups, the faster one rarer.

    Rare slow numbers belong to training: a checkpoint, an epoch's first batch. Rare fast numbers measure
    something else: an evaluation, or all ranks instead of one.
    """
    rest = rates[int(_STARTED * rates.size) :]
    found = slow_jobs(rest.tolist())
    if found is None or found.ratio < LEAST_RATIO or 2 * len(found.slow) <= rest.size:
        return None
    is_slow = rates <= rest[list(found.slow)].max()
    if int((is_slow[1:] != is_slow[:-1]).sum()) < FEWEST_CHANGES:
        return None
    slow, fast = rates[is_slow], rates[~is_slow]
    return (
        f"its printed numbers are of two kinds, {slow.size} around {slow.mean():.4g} and {fast.size} "
        f"around {fast.mean():.4g}, so it has no throughput; make the pattern match, or the "
        "program print, only one kind"
    )


def _at_equal_times(rates: Vector, intervals: Vector) -> bool:
    """Check that the intervals between numbers vary less than the work in them."""
    if intervals.size < _FEWEST_INTERVALS or float(np.median(intervals)) < LEAST_INTERVAL_S:
        return False
    is_known = intervals > 0
    logs = np.log(intervals[is_known])
    work = logs + np.log(rates[rates.size - intervals.size :][is_known])
    return _spread(logs) < _spread(work)


def _spread(values: Vector) -> float:
    """Return the mean distance from the median, without the furthest values."""
    distances = np.sort(np.abs(values - np.median(values)))
    return float(distances[: max(1, int(_NEAREST * distances.size))].mean())


ALLREDUCES_ALONE = "it only benchmarks allreduces"
"""Reason of excluding a run that needs no throughput."""

_QUERY = """
WITH recorded AS (
    SELECT experiment, run_id, count(*) AS ranks, sum(samples) / nullif(max(seconds), 0) AS rate
    FROM steady_rank GROUP BY ALL
), of_rank AS (
    SELECT experiment, run_id, rank, list(samples_per_s ORDER BY monotonic_s) AS rates,
        list(monotonic_s ORDER BY monotonic_s) AS times
    FROM printed GROUP BY ALL
), program AS (
    SELECT experiment, run_id, list({'rank': rank, 'rates': rates, 'times': times} ORDER BY rank) AS prints
    FROM of_rank GROUP BY ALL
), alone AS (
    SELECT DISTINCT experiment, run_id, true AS is_alone FROM collectives
)
SELECT runs.experiment, runs.run_id, scaling, nodes, ranks_per_node, runs.ranks, repeat, started_unix_s,
    is_alone, groups, coalesce(processes, runs.ranks) AS processes,
    coalesce(list_min(part_nodes), nodes) AS fewest_nodes,
    len(missing_ranks) AS silent_ranks, coalesce(recorded.ranks, 0) AS timed_ranks,
    recorded.rate AS recorded, prints, printed_unit, coalesce(printing_ranks, 1) AS printing_ranks, lost
FROM runs
LEFT JOIN recorded USING (experiment, run_id)
LEFT JOIN program USING (experiment, run_id)
LEFT JOIN alone USING (experiment, run_id)
WHERE state = 'completed'
ORDER BY runs.experiment, runs.ranks, nodes, repeat, runs.run_id
"""


@dataclass(frozen=True, order=True)
class Point:
    """A size of an experiment; points are ordered by ranks, then nodes."""

    ranks: int
    nodes: int
    ranks_per_node: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Point":
        """Return the size of a row of a table."""
        return cls(row["ranks"], row["nodes"], row["ranks_per_node"])

    @property
    def size(self) -> dict[str, int]:
        """Return the fields of a size, as each part of a summary has them."""
        return {"nodes": self.nodes, "ranks_per_node": self.ranks_per_node, "ranks": self.ranks}


@dataclass(frozen=True)
class Measurement:
    """A completed run's throughput.

    Args:
        samples_per_s: None if the run is excluded, for the reason in `left_out`.
        source: `steps` (the recorder's) or `printed` (numbers that the program printed).
        warm_up: Counts steps or printed numbers.
        unit: Unit of throughput, per second, in the plural.
    """

    experiment: str
    run_id: str
    scaling: str
    point: Point
    samples_per_s: float | None = None
    source: str | None = None
    left_out: str | None = None
    warm_up: WarmUp | None = None
    repeat: int | None = None
    started_unix_s: float | None = None
    unit: str = UNIT
    lost: float = 0.0
    """Share of its size's ended runs that have no result. Those may have been slow."""


def measurements(tables: StudyTables) -> list[Measurement]:
    """Measure each completed run, ordered by experiment, point and repeat.

    Throughput is all ranks' samples divided by the slowest rank's total step time, in the steady state.
    Runs without steps use printed numbers (`printed_rate`). A run is excluded if a rank's steps are
    missing, if it never became steady, or if its ranks never met.
    """
    return [
        _measurement(row, tables.warm_ups.get((row["experiment"], row["run_id"])))
        for row in tables.fetch(_QUERY)
    ]


def _measurement(row: Mapping[str, Any], warm_up: WarmUp | None) -> Measurement:
    run = Measurement(
        experiment=row["experiment"],
        run_id=row["run_id"],
        scaling=row["scaling"],
        point=Point.of(row),
        warm_up=warm_up,
        repeat=row["repeat"],
        started_unix_s=row["started_unix_s"],
        lost=row["lost"],
    )
    if (row["groups"] or 1) > 1:
        return replace(run, left_out=_never_met(row))
    if row["fewest_nodes"] < row["nodes"]:
        went_on = f"it continued on {row['fewest_nodes']} of its {row['nodes']} nodes after a loss"
        return replace(run, left_out=f"{went_on}, so it does not measure its size")
    if row["silent_ranks"] == row["processes"] and row["prints"]:
        unit = row["printed_unit"] or UNIT
        printed = _printed_by_all(row["prints"], row["printing_ranks"], unit)
        return replace(
            run,
            unit=unit,
            samples_per_s=printed.samples_per_s,
            source=None if printed.left_out else "printed",
            left_out=printed.left_out,
            warm_up=printed.warm_up,
        )
    left_out = _left_out(row, warm_up)
    if left_out:
        return replace(run, left_out=left_out)
    if odd := implausible(row["recorded"]):
        return replace(run, left_out=f"its steps give {odd}")
    return replace(run, samples_per_s=row["recorded"], source="steps")


def _never_met(row: Mapping[str, Any]) -> str:
    ranks, groups = row["ranks"], row["groups"]
    if row["processes"] == 1:
        return (
            f"its program and the commands beside it on {count(row['nodes'], 'node')} never met (they "
            f"are {groups} groups), so it did not use all nodes; let the program connect to them"
        )
    apart = "none was connected to another" if groups == ranks else f"they are {groups} groups"
    return (
        f"its {ranks} ranks never met ({apart}), so each group did the whole work alone; give the "
        "program the numbers of nodes and ranks, or set independent: true"
    )


def _left_out(row: Mapping[str, Any], warm_up: WarmUp | None) -> str | None:
    silent, ranks = row["silent_ranks"], row["processes"]
    if silent == ranks:
        none = "no steps recorded and no throughput printed"
        return ALLREDUCES_ALONE if row["is_alone"] else none
    if silent:
        return f"no steps of {silent} of its {ranks} ranks"
    if warm_up and warm_up.left_out:
        return warm_up.reason
    if row["timed_ranks"] < ranks or not row["recorded"]:
        return "no samples in its steady state"
    return None

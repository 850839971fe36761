"""A run's throughput from the numbers that its program printed, without its warm-up."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from argosy.analysis.slow_jobs import slow_jobs
from argosy.analysis.warmup import WarmUp, warm_up

LEAST_RATIO = 1.5
"""Of two groups of numbers that are taken for two kinds."""
FEWEST_CHANGES = 3
"""From one group to the other, so that a single change of pace is none of it."""
PLAUSIBLE = (1e-30, 1e30)
"""Samples/s: beyond, a number is no throughput, and what is computed of it no number."""
_STARTED = 0.2
"""Of a run: slow first numbers do not hide two groups behind them."""
LEAST_INTERVAL_S = 0.01
"""Median, between numbers; less is a buffer that was emptied, and its times tell nothing."""
_FEWEST_INTERVALS = 3
_NEAREST = 0.9
"""Of the intervals; an evaluation or a checkpoint may lie in the others."""

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class PrintedRate:
    """A run's throughput in samples/s, or why there is none (`left_out`); `warm_up` counts numbers."""

    samples_per_s: float | None = None
    warm_up: WarmUp | None = None
    left_out: str | None = None


def printed_rate(rates: Sequence[float], times: Sequence[float]) -> PrintedRate:
    """Return the throughput that a run's printed `rates` (samples/s) tell, printed at `times` (s).

    Zeros before the first other number are left out as warm-up, too.
    """
    every, at = np.asarray(rates, dtype=np.float64), np.asarray(times, dtype=np.float64)
    if not every.any():
        return PrintedRate(left_out="it printed no throughput but 0")
    if odd := implausible(*every[every != 0]):
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


def implausible(*rates: float) -> str | None:
    """Return what is wrong with the first of the rates (samples/s) that is none; None where all are."""
    low, high = PLAUSIBLE
    odd = next((rate for rate in rates if not low <= rate <= high), None)
    return None if odd is None else f"{odd:.3g} samples per second, which is no throughput"


def mean_rate(rates: Vector, times: Vector, first: int) -> float:
    """Return the mean of the rates from the `first` on, each by the work that it stands for.

    A number tells of what was done since the one before. Between numbers lies the same work (every so many
    steps), so the harmonic mean is that of all work over all time; or the same time, as their `times` tell
    where they are more alike than the work, and then it is the arithmetic mean.
    """
    kept = rates[first:]
    if _at_equal_times(kept, np.diff(times[max(0, first - 1) :])):
        return float(kept.mean())
    return float(1 / (1 / kept).mean())


def _warm_up(rates: Vector, zeros: int) -> WarmUp:
    """Return the warm-up of rates, the first of which follows so many `zeros`."""
    if rates.size == 1:
        return WarmUp(zeros, True, "it printed one number")
    found = warm_up(1 / rates, of="print")
    if not zeros:
        return found
    reason = f"the first {zeros} of its prints say 0, and then {found.reason}"
    slower_from = None if found.slower_from is None else zeros + found.slower_from
    return replace(found, steps=zeros + found.steps, reason=reason, slower_from=slower_from)


def _stopped(rates: Vector) -> str | None:
    zeros = int((rates == 0).sum())
    if not zeros:
        return None
    return (
        f"{zeros} of its {rates.size} printed numbers are 0 between others, so that their mean is "
        "no throughput"
    )


def _two_kinds(rates: Vector) -> str | None:
    """Return the sentence that the numbers lie in two groups, where the larger ones come and go.

    Rarer slow numbers are part of a training: a checkpoint, an epoch's first batch. Rarer fast ones between
    others are of something else: an evaluation, or all ranks where others are of one.
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
        f"around {fast.mean():.4g}, and no throughput is made of both; let the pattern match, or the "
        "program print, one kind alone"
    )


def _at_equal_times(rates: Vector, intervals: Vector) -> bool:
    """Return whether the intervals, the last before the last rate, are more alike than work."""
    if intervals.size < _FEWEST_INTERVALS or float(np.median(intervals)) < LEAST_INTERVAL_S:
        return False
    is_known = intervals > 0
    logs = np.log(intervals[is_known])
    work = logs + np.log(rates[rates.size - intervals.size :][is_known])
    return _spread(logs) < _spread(work)


def _spread(values: Vector) -> float:
    """Return how far values lie from their median in the mean, without the furthest."""
    distances = np.sort(np.abs(values - np.median(values)))
    return float(distances[: max(1, int(_NEAREST * distances.size))].mean())

"""Detect the warm-up at the start of a run from its step times.

Steps before a change to faster steps are cut off, and the rest is examined again (binary segmentation,
Scott and Knott, Biometrics 30, 1974), so compilation in the first step does not hide a slow start after it.
A cut counts only if the steps before it are slow and the rest does not speed up. If the rest speeds up, the
run approaches its steady state slowly: its limit is fitted, and used if the fit agrees with the steps.
Otherwise the run is excluded.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

from argosy.report.statistics.step_series import (
    LEAST_SPREAD,
    change_to_faster,
    fit_decay,
    long_run_variance,
    middle,
    slowdown,
)

FEWEST_STEPS = 10
"""With fewer steps nothing is detected: FIXED_STEPS are excluded, or half of a very short run."""
FIXED_STEPS = 5

LATEST_CUT = 0.8
"""Latest start of a steady state, as a share of the run; later ones are too short to confirm."""
CLEAR_TREND = 2.33
"""Trend to faster steps, in standard errors, above which steps are not steady (p = 0.01)."""
SLIGHT_TREND = 1.64
"""Tolerated trend, in standard errors, after a short slow start; more may be the end of the start."""
SHORT_START = 0.1
"""Share of the run up to which a slow start is short; twice its length is excluded, to cover its end.

With 0.2, a power law hidden in noise would count as a short start, and the mean would be 5 % off."""
FIRST_STEPS = 4
"""A slow start of up to this many steps is short in any run: memory is allocated, caches fill."""
DECAYS_WITHIN = 3
"""A run must be longer than this many time constants for its fitted limit to be used."""
STEADY_AFTER = 5
"""Time constants after which less than one per cent of an exponential decay remains."""

_FEWEST_OF_LEVEL = 6
_SHORTEST_REST = 5
_UNCERTAIN = 5
_LEAST_JUMP = 0.01

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class WarmUp:
    """The first `steps` to exclude, and why.

    Args:
        stationary: False if the run is too short to judge, or never became steady.
        excess: Mean of the counted steps relative to the steady state that they approach; 1 if steady.
        left_out: Whether the run never became steady, so that it has no throughput.
        slower_from: Step, from the start of the run, after which counted steps take `slower` times as long
            as before; None if the run does not slow down.
    """

    steps: int
    stationary: bool
    reason: str
    excess: float = 1.0
    left_out: bool = False
    slower_from: int | None = None
    slower: float = 1.0

    @property
    def is_steady(self) -> bool:
        """Whether all counted steps have one level."""
        return self.stationary and self.slower_from is None


def warm_up(step_s: Sequence[float] | Vector, of: str = "step") -> WarmUp:
    """Detect the warm-up of a run.

    Warm-up is slow, so a run that slows down has none; the slowdown is returned too. A first step that
    clearly takes longest is always warm-up, since kernels are compiled and chosen in it.

    Args:
        step_s: Seconds of the steps in order, shape (steps,).
        of: The noun for messages, `step` or `print`.

    Raises:
        ValueError: A time is not positive.
    """
    seconds = np.asarray(step_s, dtype=np.float64)
    if seconds.size and not seconds.min() > 0:
        raise ValueError("a step takes more than 0 s")
    found = _slow_start(seconds, of)
    slower = None if found.left_out else slowdown(seconds[found.steps :])
    if slower is None:
        return found
    return replace(found, slower_from=found.steps + slower.begin, slower=slower.ratio)


def of_pieces(step_s: Vector, begins: Sequence[int]) -> list[WarmUp]:
    """Return the warm-up of each piece of a continued run, since each job starts cold.

    Args:
        begins: Indices at which pieces begin, except the first.
    """
    return [warm_up(piece) for piece in np.split(step_s, begins)]


def joined(pieces: Sequence[WarmUp], begins: Sequence[int]) -> WarmUp:
    """Merge the warm-ups of a run's pieces; pieces that never became steady are excluded."""
    if len(pieces) == 1:
        return pieces[0]
    kept = [one for one in pieces if not one.left_out]
    places = [0, *begins]
    slower = max(zip(pieces, places, strict=True), key=lambda one: one[0].slower)
    reasons = "; ".join(
        f"from step {place} on, {one.reason}" + (", and excluded" if one.left_out else "")
        for one, place in zip(pieces, places, strict=True)
    )
    return WarmUp(
        sum(one.steps for one in pieces),
        all(one.stationary for one in kept) and bool(kept),
        f"it consists of {len(pieces)} jobs: {reasons}",
        max((one.excess for one in kept), default=1.0),
        left_out=not kept,
        slower_from=None if slower[0].slower_from is None else slower[1] + slower[0].slower_from,
        slower=slower[0].slower,
    )


def _slow_start(seconds: Vector, of: str) -> WarmUp:
    """Return the warm-up, without a later slowdown."""
    if seconds.size < FEWEST_STEPS:
        steps = min(FIXED_STEPS, seconds.size // 2)
        return WarmUp(
            steps,
            False,
            f"too few {of}s to judge: {seconds.size}, at least {FEWEST_STEPS} are needed",
        )
    logs = np.log(seconds)
    cuts = _cuts(logs)
    if not cuts:
        return WarmUp(0, True, "none found")
    begin = _steady_from(logs, cuts)
    if begin is not None:
        return _cut_off(seconds, cuts[-1], begin, of)
    return _approached(seconds, 1 if cuts[0] == 1 else 0, of)


def _cuts(logs: Vector) -> list[int]:
    """Return the ends of consecutive slow parts from the start of the run."""
    cuts = [1] if _first_is_slow(logs) else []
    while True:
        begin = cuts[-1] if cuts else 0
        if begin > LATEST_CUT * logs.size or logs.size - begin < FEWEST_STEPS:
            return cuts
        more = change_to_faster(logs[begin:])
        if not more or not _began_slow(logs[begin : begin + more], logs[begin + more :]):
            return cuts
        cuts.append(begin + more)


def _first_is_slow(logs: Vector) -> bool:
    # In a steady run, the first of n steps is the slowest with probability 1/n, for any noise.
    others = logs[1:]
    return bool(logs[0] > others.max() + max(2 * _spread(others), _LEAST_JUMP))


def _spread(values: Vector) -> float:
    """Estimate the standard deviation robustly, by the median absolute deviation."""
    return 1.4826 * middle(np.sort(np.abs(values - middle(np.sort(values)))))


def _began_slow(part: Vector, rest: Vector) -> bool:
    """Check that the first two thirds of a part are slower than the rest, unlike a burst."""
    if part.size < _FEWEST_OF_LEVEL:
        return True
    third = part.size // 3
    # The variance of a median is pi / 2 times that of a mean.
    error = 1.2533 * _spread(rest) * sqrt(1 / third + 1 / rest.size)
    firsts = part[:third], part[third : 2 * third]
    return min(middle(np.sort(one)) for one in firsts) > middle(np.sort(rest)) + 2 * error


def _steady_from(logs: Vector, cuts: list[int]) -> int | None:
    """Return the number of steps before the steady state; None if none is confirmed."""
    last = cuts[-1]
    if last > LATEST_CUT * logs.size or logs.size - last < _SHORTEST_REST:
        return None
    rest = _trend(logs[last:])
    if _began_on_one_level(logs, cuts):
        # The variance of short series is uncertain, and too small if steps are correlated.
        return last if rest < CLEAR_TREND * (1 + _UNCERTAIN / (logs.size - last)) else None
    if last > max(SHORT_START * logs.size, FIRST_STEPS):
        return None
    return 2 * last if _trend(logs[2 * last :]) < SLIGHT_TREND else None


def _began_on_one_level(logs: Vector, cuts: list[int]) -> bool:
    """Check that the run has a single slow part, besides its first step, with an abrupt end."""
    parts = np.split(logs[: cuts[-1]], cuts[:-1])
    return len(parts) - (cuts[0] == 1) <= 1 and _trend(parts[-1]) < CLEAR_TREND


def _trend(logs: Vector) -> float:
    """Return the excess of the first third over the last half, in standard errors; 0 for few steps."""
    if logs.size < _FEWEST_OF_LEVEL:
        return 0.0
    first, last = logs[: logs.size // 3], logs[logs.size // 2 :]
    spread = max(float(logs.std()), LEAST_SPREAD)
    variance = max(1.0, long_run_variance((logs - logs.mean()) / spread))
    error = spread * sqrt(variance * (1 / first.size + 1 / last.size))
    return float(first.mean() - last.mean()) / error


def _cut_off(seconds: Vector, slow: int, steps: int, of: str) -> WarmUp:
    ratio = middle(np.sort(seconds[:slow])) / middle(np.sort(seconds[steps:]))
    reason = f"the first {slow} {of}s took {ratio:.2f} times as long as the rest"
    if steps > slow:
        reason += f"; the next {slow} were still speeding up, so they are excluded too"
    return WarmUp(steps, True, reason)


def _approached(seconds: Vector, compiled: int, of: str) -> WarmUp:
    """Return the warm-up of a run that speeds up gradually; the first `compiled` steps are ignored."""
    decay = fit_decay(seconds[compiled:])
    if decay is None:
        return _refused(seconds.size, 3 * seconds.size, of)
    if DECAYS_WITHIN * decay.time_constant >= seconds.size:
        return _refused(seconds.size, ceil(STEADY_AFTER * decay.time_constant), of)
    steps = min(compiled + ceil(DECAYS_WITHIN * decay.time_constant), seconds.size // 2)
    excess = float(seconds[steps:].mean()) / decay.steady_s
    return WarmUp(
        steps,
        True,
        f"its {of}s sped up gradually, so their limit is fitted (the excess falls to 37 % in "
        f"{decay.time_constant:.0f} {of}s)",
        max(1.0, excess),
    )


def _refused(steps: int, wanted: int, of: str) -> WarmUp:
    reason = f"it was still warming up when it ended; train for at least {wanted:,} {of}s"
    return WarmUp(steps // 2, False, reason, left_out=True)

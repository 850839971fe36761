"""How many first steps of a run are warm-up, found from the steps themselves.

What lies before a change to faster steps is cut off and the rest looked at again (binary segmentation,
Scott and Knott, Biometrics 30, 1974), so that a compilation in the first step does not hide a slow start
after it. A cut counts only where the run began slow, and what remains must not become faster. Where it
does, the run approaches its steady state slowly: then the level that it approaches is fitted, and taken
only where the fit agrees with the steps. A run of which neither can be said is left out.
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
"""Fewer steps tell nothing, and FIXED_STEPS (of very short runs, half of the steps) are left out."""
FIXED_STEPS = 5

LATEST_CUT = 0.8
"""Of the run; a steady state that begins later is too short to be seen as one."""
CLEAR_TREND = 2.33
"""In standard errors, one chance in a hundred: a level is one, unless it clearly becomes faster."""
SLIGHT_TREND = 1.64
"""What remains after a slow start may have that much; more could be its end."""
SHORT_START = 0.1
"""Of the run: a slow start that takes no longer is left out twice over, so that its end is, too.

With a fifth instead, a power law that is hard to see in its noise would be taken for one: the run's mean
would be 5 % off."""
FIRST_STEPS = 4
"""So many may be slow in a short run as well, while memory is allocated and caches fill."""
DECAYS_WITHIN = 3
"""Time constants that a run has to be longer than, to take the level that it approaches."""
STEADY_AFTER = 5
"""Time constants after which less than one per cent of a decay is left."""

_FEWEST_OF_LEVEL = 6
_SHORTEST_REST = 5
_UNCERTAIN = 5
_LEAST_JUMP = 0.01

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class WarmUp:
    """How many first `steps` to leave out, and why.

    `stationary` is False when the run is too short to tell, or never became steady: then `left_out` is
    True, and the run has no throughput. `excess` is how many times as long the steps that are kept took as
    the steady state which they approach, 1 where they are steady. From `slower_from` on, counted from the
    run's begin, its steps take `slower` times as long as those that count before; mostly none do.
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
        """Whether its steps that count are of one level."""
        return self.stationary and self.slower_from is None


def warm_up(step_s: Sequence[float] | Vector, of: str = "step") -> WarmUp:
    """Return the warm-up of a run from the seconds of its steps in order, of shape (steps,).

    What is not a step's time but of another, such as a sample's by each `print`, is called so.

    Warm-up is slow: a run that becomes slower has none, and what it becomes is said. A first step that
    clearly takes longer than any other is always warm-up: kernels are compiled and chosen in it.

    Raises:
        ValueError: a step took no time.
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
    """Return the warm-up of each piece of a continued run: every job that continues it starts cold.

    Args:
        begins: the places at which its pieces begin, but for the first.
    """
    return [warm_up(piece) for piece in np.split(step_s, begins)]


def joined(pieces: Sequence[WarmUp], begins: Sequence[int]) -> WarmUp:
    """Return what is said of a whole run of so many pieces; those that never became steady are left out."""
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
    """Return the warm-up of positive seconds of steps."""
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
    """Return the ends of slow parts, each from the run's begin or the one before; the rest follows."""
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
    # That the first of n steps is the slowest has a chance of 1/n in a steady run, whatever the noise.
    others = logs[1:]
    return bool(logs[0] > others.max() + max(2 * _spread(others), _LEAST_JUMP))


def _spread(values: Vector) -> float:
    """Return the standard deviation, of normal values with outliers."""
    return 1.4826 * middle(np.sort(np.abs(values - middle(np.sort(values)))))


def _began_slow(part: Vector, rest: Vector) -> bool:
    """Return whether two thirds of what may be cut off are slower than the rest: a burst is not."""
    if part.size < _FEWEST_OF_LEVEL:
        return True
    third = part.size // 3
    # Of a median, whose variance is pi / 2 times a mean's.
    error = 1.2533 * _spread(rest) * sqrt(1 / third + 1 / rest.size)
    firsts = part[:third], part[third : 2 * third]
    return min(middle(np.sort(one)) for one in firsts) > middle(np.sort(rest)) + 2 * error


def _steady_from(logs: Vector, cuts: list[int]) -> int | None:
    """After how many steps the run is on one level; None where it is not seen to be."""
    last = cuts[-1]
    if last > LATEST_CUT * logs.size or logs.size - last < _SHORTEST_REST:
        return None
    rest = _trend(logs[last:])
    if _began_on_one_level(logs, cuts):
        # In short series the variance itself is uncertain, and too small where steps are alike.
        return last if rest < CLEAR_TREND * (1 + _UNCERTAIN / (logs.size - last)) else None
    if last > max(SHORT_START * logs.size, FIRST_STEPS):
        return None
    return 2 * last if _trend(logs[2 * last :]) < SLIGHT_TREND else None


def _began_on_one_level(logs: Vector, cuts: list[int]) -> bool:
    """Return whether the run was slow, with its first step or without, and then at once was not."""
    parts = np.split(logs[: cuts[-1]], cuts[:-1])
    return len(parts) - (cuts[0] == 1) <= 1 and _trend(parts[-1]) < CLEAR_TREND


def _trend(logs: Vector) -> float:
    """Return how many standard errors the first third is above the last half; 0 for a few steps."""
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
    """Return what is said of a run that became faster slowly; its first `compiled` steps do not count."""
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

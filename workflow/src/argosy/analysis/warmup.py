"""How many first steps of a run are warm-up, found from the steps themselves.

The rule looks for one change of the mean in the log step time, by the likelihood ratio of normal
values (Hinkley, Biometrika 57, 1970), beyond a penalty. It is made fit for step times in three ways.
Single outliers count little: values are clipped, which is the biweight-like loss of Fearnhead and
Rigaill, "Changepoint Detection in the Presence of Outliers", JASA 114, 2019. Neighbouring steps are
alike: the ratio is taken to the long-run variance, from means of blocks. And what lies before a
change is cut off and the rest looked at again (binary segmentation, Scott and Knott, Biometrics 30,
1974), so that a compilation in the first step does not hide a slow start after it.

It was chosen over MSER-5 (White, Simulation 69(6), 1997), which leaves something out of 30 to 60 of
100 series of 20 to 1,000 steps that have no warm-up at all; this rule does of 0 to 5. Both find a
start at half the speed, to the step and to the batch of five. What this rule misses are starts that
look like the rest: three slow steps where every tenth is slow by chance. An autocorrelation of 0.9
passes for warm-up in 8 (of 1,000 steps) to 25 (of 20) of 100 steady series.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Fewer steps tell nothing, and FIXED_STEPS (of very short runs, half of the steps) are left out.
FEWEST_STEPS = 10
FIXED_STEPS = 5
# A steady state is as long at least, so that a few last steps that are fast are none.
_SHORTEST_REST = 5
# Of log step times: a change by less than one per mille is no matter.
_LEAST_SCALE = 1e-3
_LEAST_VARIANCE = 0.5
_LOG_OF_TWICE = float(np.log(2))

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class WarmUp:
    """How many first `steps` to leave out, and why.

    `stationary` is False when no steady state was reached within the first half of the run, or when
    the run is too short to tell; `steps` is never more than half of the run.
    """

    steps: int
    stationary: bool
    reason: str


def warm_up(step_s: Sequence[float] | Vector) -> WarmUp:
    """The warm-up of a run from the seconds of its steps in order, of shape (steps,).

    Warm-up is slow: a run that becomes slower has none. A first step that takes twice as long as any
    other is always warm-up: kernels are compiled and chosen in it. Raises ValueError for a step that took
    no time.
    """
    seconds = np.asarray(step_s, dtype=np.float64)
    if seconds.size and not seconds.min() > 0:
        raise ValueError("a step takes more than 0 s")
    half = seconds.size // 2
    if seconds.size < FEWEST_STEPS:
        steps = min(FIXED_STEPS, half)
        return WarmUp(steps, False, f"too few steps to tell: {seconds.size} of {FEWEST_STEPS}")
    steps = _slow_steps(np.log(seconds))
    if steps > half:
        return WarmUp(half, False, "no steady state: still faster in the second half of the run")
    if not steps:
        return WarmUp(0, True, "none found")
    ratio = _middle(np.sort(seconds[:steps])) / _middle(np.sort(seconds[steps:]))
    return WarmUp(
        steps, True, f"the first {steps} steps took {ratio:.2f} times as long as the rest"
    )


def _slow_steps(logs: Vector) -> int:
    """Where the last change to faster steps is, the search ending in the second half."""
    # That the first of n steps is the slowest has a chance of 1/n in a steady run, whatever the noise.
    steps = int(logs[0] > logs[1:].max() + _LOG_OF_TWICE)
    while steps <= logs.size // 2 and logs.size - steps >= FEWEST_STEPS:
        more = _change(logs[steps:])
        if not more:
            break
        steps += more
    return steps


def _change(logs: Vector) -> int:
    """The number of steps before the most likely change to faster steps, or 0."""
    penalty = _penalty(logs.size)
    values = _clipped(logs, penalty)
    before = np.arange(1, logs.size - _SHORTEST_REST + 1)
    sums = np.cumsum(values)
    after = logs.size - before
    first = sums[: before.size]
    faster = np.maximum(0, first / before - (sums[-1] - first) / after)
    gains = faster**2 * before * after / logs.size
    place = int(before[np.argmax(gains)])
    rest = np.concatenate([part - part.mean() for part in (values[:place], values[place:])])
    return place if gains.max() > penalty * _long_run_variance(rest) else 0


def _penalty(steps: int) -> float:
    """The gain, in long-run variances, that chance exceeds in 5 of 100 steady runs at most.

    Found by simulation, the same for normal and heavy-tailed noise, noise with an autocorrelation
    of 0.5, and periodic slow steps; in short series the variance itself is uncertain.
    """
    return 12 + 180 / steps


def _clipped(logs: Vector, penalty: float) -> Vector:
    """Deviations from the steady level in units of their spread.

    They are clipped where a first step alone is enough to be found, with room for a long-run variance
    above 1. The spread is that of neighbours, which a change does not enlarge, or that of the second
    half's slow steps, of which the slowest does not count.
    """
    steady = np.sort(logs[logs.size // 2 :])
    level = _middle(steady)
    of_neighbours = _middle(np.sort(np.abs(logs[1:] - logs[:-1]))) / (0.6745 * 2**0.5)
    # 98 of 100 normal values lie below 2.05 standard deviations.
    of_slow_steps = (float(steady[int(0.98 * (steady.size - 1))]) - level) / 2.05
    spread = max(of_neighbours, of_slow_steps, _LEAST_SCALE)
    bound = (4 * penalty) ** 0.5
    return np.asarray(np.minimum(np.maximum((logs - level) / spread, -bound), bound))


def _middle(ordered: Vector) -> float:
    """The median; NumPy's takes 2 to 10 times as long for the few hundred steps of most runs."""
    return float(ordered[(ordered.size - 1) // 2] + ordered[ordered.size // 2]) / 2


def _long_run_variance(rest: Vector) -> float:
    """The variance of a mean times its number of values, which are not independent.

    It is the largest over blocks of 1, 2, 4, … steps, each from the differences of neighbouring
    blocks' means (von Neumann, Annals of Mathematical Statistics 12, 1941).
    """
    longest = max(1.0, min(rest.size / 6, 2 * rest.size**0.5))
    found, block = _LEAST_VARIANCE, 1
    while block <= longest:
        count = rest.size // block
        means = rest[rest.size - count * block :].reshape(count, block).sum(axis=1) / block
        steps = means[1:] - means[:-1]
        found = max(found, block * float((steps * steps).sum()) / steps.size / 2)
        block *= 2
    return found

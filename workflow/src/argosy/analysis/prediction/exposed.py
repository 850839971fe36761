"""What communication adds to a step, for many steps at once, and wherever Horovod's cycles begin.

The rules are those of `overlap.simulate`, for arrays of steps that go cycle by cycle together. Cycles go
on while nothing is to be sent, so the backward pass begins anywhere between two of them: the mean over
PHASES places is what a step takes on average.
"""

from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

from argosy.analysis.log_least_squares import Vector
from argosy.analysis.prediction.networks import Lines
from argosy.analysis.prediction.overlap import ROUNDING, Gradients, Horovod

PHASES = 16

_Places = NDArray[np.int64]


def mean_exposed(
    gradients: Gradients, backward_s: float, slower: Vector, lines: Lines, horovod: Horovod
) -> Vector:
    """Return seconds from the end of the backward pass to the end of the last allreduce, for each step.

    In a step all gradients, and the backward pass, take `slower` times as long as they say, shape (steps,),
    and its allreduces are those of `lines`.
    """
    if not gradients.ready_s:
        return np.zeros_like(slower)
    after_cycle = np.tile((np.arange(PHASES) + 0.5) / PHASES, slower.size)
    latency_s, s_per_byte, factor = (
        np.repeat(each, PHASES) for each in (lines.latency_s, lines.s_per_byte, slower)
    )
    end_s = _ends(gradients, factor, Lines(latency_s, s_per_byte), horovod, after_cycle)
    late_s = np.maximum(0.0, end_s - backward_s * factor)
    return np.asarray(late_s.reshape(-1, PHASES).mean(axis=1))


def _ends(
    gradients: Gradients, slower: Vector, lines: Lines, horovod: Horovod, after_cycle: Vector
) -> Vector:
    """Return when the last allreduce of each step is over, in seconds of the backward pass.

    It begins when `after_cycle` of the time between idle cycles is over.
    """
    ready_s, bytes_before = np.array(gradients.ready_s), np.array(gradients.bytes_before)
    negotiation_s = lines.negotiation_share * lines.latency_s
    idle_s = np.maximum(horovod.cycle_s, negotiation_s)
    begin_s = -after_cycle * idle_s
    following = _following(gradients, horovod)
    rounding = ROUNDING * horovod.cycle_s
    end_s = np.zeros_like(begin_s)
    left = np.arange(begin_s.size)
    first = np.zeros(begin_s.size, dtype=np.int64)
    while left.size:
        factor = slower[left]
        begin = _cycle_with(ready_s[first] * factor, begin_s, idle_s[left])
        ready = np.searchsorted(ready_s, (begin + rounding) / factor, side="right")
        after = np.maximum(ready, first + 1)
        sent_s = _messages(first, after, following) * lines.latency_s[left]
        sent_s += (bytes_before[after] - bytes_before[first]) * lines.s_per_byte[left]
        end = begin + negotiation_s[left] + sent_s
        end_s[left] = end
        more = after < ready_s.size
        left, first = left[more], after[more]
        begin_s = np.maximum(begin + horovod.cycle_s, end)[more]
    return end_s


def _cycle_with(ready_s: Vector, begin_s: Vector, cycle_s: Vector) -> Vector:
    """Return the first begin of a cycle, from `begin_s` on, that finds the gradient ready."""
    waits = np.maximum(ready_s - begin_s, 0.0)
    cycles = np.maximum(np.ceil(waits / np.where(cycle_s > 0, cycle_s, 1.0) - ROUNDING), 0)
    return begin_s + np.where(cycle_s > 0, cycles * cycle_s, waits)


def _following(gradients: Gradients, horovod: Horovod) -> _Places:
    """Return, for each gradient, the first that no longer fits into a message that begins with it."""
    sums, threshold = gradients.bytes_before, horovod.fusion_threshold_bytes
    found = [
        max(bisect_right(sums, sums[place] + threshold) - 1, place + 1)
        for place in range(len(gradients.ready_s))
    ]
    return np.array([*found, len(found)])


def _messages(first: _Places, after: _Places, following: _Places) -> Vector:
    """Into how many messages the gradients from `first` to `after` go."""
    count = np.zeros(first.size)
    place = first
    while (place < after).any():
        count += place < after
        place = np.where(place < after, following[place], place)
    return count

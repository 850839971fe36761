"""What communication adds to a step, for many steps at once.

The rules are those of `overlap.simulate`, for arrays of steps that go cycle by cycle together.
"""

from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

from argosy.analysis.log_least_squares import Vector
from argosy.analysis.prediction.networks import Lines
from argosy.analysis.prediction.overlap import ROUNDING, Gradients, Horovod

_Places = NDArray[np.int64]


def exposed_seconds(
    gradients: Gradients, backward_s: float, slower: Vector, lines: Lines, horovod: Horovod
) -> Vector:
    """Return seconds from the end of the backward pass to the end of the last allreduce, for each step.

    In a step all gradients, and the backward pass, take `slower` times as long as they say, shape (steps,),
    and its allreduces are those of `lines`.
    """
    if not gradients.ready_s:
        return np.zeros_like(slower)
    end_s = _ends(gradients, slower, lines, horovod)
    return np.maximum(0.0, end_s - backward_s * slower)


def _ends(gradients: Gradients, slower: Vector, lines: Lines, horovod: Horovod) -> Vector:
    """Return when the last allreduce of each step is over, in seconds of the backward pass."""
    ready_s, bytes_before = np.array(gradients.ready_s), np.array(gradients.bytes_before)
    negotiation_s = lines.negotiation_share * lines.latency_s
    following = _following(gradients, horovod)
    rounding = ROUNDING * horovod.cycle_s
    begin_s, end_s = np.zeros_like(slower), np.zeros_like(slower)
    left = np.arange(slower.size)
    first = np.zeros(slower.size, dtype=np.int64)
    while left.size:
        factor = slower[left]
        begin = np.maximum(ready_s[first] * factor, begin_s)
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

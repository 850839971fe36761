"""Counters that begin with the first look at them."""

from __future__ import annotations

from typing import Mapping


class CumulativeCounter:
    """How much a set of counters has grown altogether, each since it was seen first.

    A counter that falls has begun anew: what it had until then stays, and this fall adds nothing.

    Args:
        ranges: for a counter that wraps around, the value after which it is 0 again.
    """

    def __init__(self, ranges: Mapping[str, float] | None = None) -> None:
        self._ranges = ranges or {}
        self._last: dict[str, float] = {}
        self._total: float = 0

    def add(self, counters: Mapping[str, float]) -> float:
        """Return the growth up to these values. A counter that is not among them is looked at next time."""
        for name, value in counters.items():
            step = value - self._last.get(name, value)
            if step < 0:
                step = max(0, step + self._ranges.get(name, 0))
            self._total += step
            self._last[name] = value
        return self._total


class Integral:
    """The integral of a rate over time by the trapezium rule, from the first value on."""

    def __init__(self) -> None:
        self._last: tuple[float, float] | None = None
        self._total = 0.0

    def add(self, at_s: float, rate: float) -> float:
        """Return the integral up to this value; `rate` is a quantity per second."""
        if self._last:
            before_s, before = self._last
            self._total += (at_s - before_s) * (before + rate) / 2
        self._last = at_s, rate
        return self._total

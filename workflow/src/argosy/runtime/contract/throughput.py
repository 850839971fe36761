"""Printed throughput: `throughput` of run.json, and the meaning of the numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Mapping, Sequence

IN_A_SECOND = {"seconds": 1.0, "milliseconds": 1e3, "microseconds": 1e6}
"""Units of time, and their number in a second."""
NUMBER, TIMES = "number", "times"
GROUPS = (NUMBER, TIMES, *IN_A_SECOND)
"""Names of groups in a pattern with several groups."""
SAMPLES = "samples"
FIRST, LAST, ALL = "first", "last", "all"
_OF = ("job", "rank", "node")
_UNIT = re.compile("[A-Za-z-]{1,24}")


@dataclass(frozen=True)
class Throughput:
    """A pattern, and the meaning of the numbers that it captures (config/README.md)."""

    pattern: str
    format: str | None = None
    """Name of the predefined format, if the experiment uses one."""
    of: str = "job"
    says: str = "rate"
    """The key `is`: `rate`, or the unit of a time."""
    per: str = "sample"
    times: float | None = None
    rank: str | int = FIRST

    @property
    def unit(self) -> str:
        """Counted unit in the plural; steps with `times` count as samples."""
        if self.per == "step" and self.times is not None:
            return SAMPLES
        return self.per + ("es" if self.per.endswith(("s", "x", "ch", "sh")) else "s")

    def ranks(self, ranks: int) -> Sequence[int]:
        """Return the ranks whose output is searched, for a number of ranks. Raises ValueError if none."""
        if self.rank == ALL:
            return range(ranks)
        one = {FIRST: 0, LAST: ranks - 1}.get(str(self.rank), self.rank)
        if not isinstance(one, int) or one >= ranks:
            raise ValueError(f"rank: {self.rank}: the job has {ranks} ranks, and the first is 0")
        return range(one, one + 1)

    def per_second(self, number: float, named: Mapping[str, str | None], times: float) -> float:
        """Convert a number to a rate per second of a rank, a node or the job, as in `of`.

        Args:
            number: the printed number.
            named: the named groups of its match, which may set the unit.
            times: the factor in the line, or 1.

        Raises:
            ZeroDivisionError: the number is a time of 0.
        """
        unit = next((one for one in IN_A_SECOND if named.get(one)), self.says)
        rate = IN_A_SECOND[unit] / number if unit in IN_A_SECOND else number
        return rate * times * (1.0 if self.times is None else self.times)

    def share(self, nodes: int, ranks: int) -> float:
        """Return the factor from the sum of the searched ranks' rates to the job's rate."""
        whole = {"job": 1, "node": nodes, "rank": ranks}[self.of]
        return whole / len(self.ranks(ranks))


def throughput_of(value: Any) -> Throughput | None:
    """Parse `throughput` of a run's description. Raises ValueError."""
    if value is None:
        return None
    if isinstance(value, str):
        return Throughput(value)
    if not isinstance(value, dict):
        raise ValueError("neither a text nor a map")
    found = Throughput(**{"says" if key == "is" else key: each for key, each in value.items()})
    texts = (found.pattern, found.per, *([found.format] if found.format is not None else []))
    is_number = isinstance(found.times, (int, float)) and not isinstance(found.times, bool)
    is_rank = isinstance(found.rank, int) and not isinstance(found.rank, bool) and found.rank >= 0
    if (
        not all(isinstance(text, str) for text in texts)
        or not _UNIT.fullmatch(found.per)
        or found.of not in _OF
        or found.says not in ("rate", *IN_A_SECOND)
        or not (found.times is None or (is_number and 0 < found.times < float("inf")))
        or not (is_rank or found.rank in (FIRST, LAST, ALL))
    ):
        raise ValueError("a key has a value that is not allowed")
    return found

"""The partitions that Slurm has: their limits, and whether they take jobs to start."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from argosy.schedulers.slurm import spans

SINFO_FORMAT = "%R|%P|%l|%s|%a"
"""Name, the same with a mark of the default one, time limit, sizes of jobs, state."""


@dataclass(frozen=True)
class Partition:
    """A partition; without a limit it is infinite."""

    name: str
    is_default: bool
    minutes: float
    nodes: float
    state: str
    """up; down: it takes jobs, and starts none; drain and inact: it takes none."""


def read_partitions(text: str) -> list[Partition]:
    """Return the partitions of sinfo's answer in SINFO_FORMAT."""
    found = {}
    for line in text.splitlines():
        name, marked, time, size, state = line.split("|")
        span = spans.seconds(time)
        minutes = math.inf if span is None else span / 60
        found[name] = Partition(name, marked.endswith("*"), minutes, _most(size), state)
    return list(found.values())


def of_script(values: Mapping[str, str | None], partitions: list[Partition]) -> Partition | None:
    """Return the script's partition, or the default one; None where it names several, or one unknown."""
    named = values.get("partition")
    fitting = (
        each for each in partitions if (each.is_default if named is None else each.name == named)
    )
    return next(fitting, None)


def _most(size: str) -> float:
    """Return the larger of `1-2`, or infinity for `1-infinite`."""
    most = size.rpartition("-")[2]
    return int(most) if most.isdigit() else math.inf

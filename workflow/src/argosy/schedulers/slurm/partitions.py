"""The partitions that Slurm has: their limits, and whether they take jobs to start."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from argosy.schedulers.slurm import spans
from argosy.schedulers.slurm.answers import UnreadableError, read_records

QUESTION = ("scontrol", "show", "partition", "-o")


@dataclass(frozen=True)
class Partition:
    """A partition; without a limit it is infinite."""

    name: str
    is_default: bool
    minutes: float
    nodes: float
    state: str
    """UP; DOWN: it takes jobs, and starts none; DRAIN and INACTIVE: it takes none."""
    memory_per_cpu: float = math.inf
    """MiB that count as one CPU: for more memory Slurm gives, and charges, more CPUs."""


def read_partitions(text: str, of_all: str = "") -> list[Partition]:
    """Return the partitions of the answer to QUESTION.

    Args:
        of_all: the cluster's MaxMemPerCPU, for partitions without one.

    Raises:
        UnreadableError: when what was printed is no answer.
    """
    records = read_records(text, "PartitionName")
    if not records:
        raise UnreadableError("Slurm lists no partition", text)
    return [_partition(each, of_all) for each in records]


def of_script(values: Mapping[str, str | None], partitions: list[Partition]) -> Partition | None:
    """Return the script's partition, or the default one; None where it names several, or one unknown."""
    named = values.get("partition")
    fitting = (
        each for each in partitions if (each.is_default if named is None else each.name == named)
    )
    return next(fitting, None)


def _partition(record: Mapping[str, str], memory_per_cpu: str) -> Partition:
    span = spans.seconds(record.get("MaxTime", ""))
    return Partition(
        record["PartitionName"],
        record.get("Default") == "YES",
        math.inf if span is None else span / 60,
        _most(record.get("MaxNodes", "")),
        record.get("State", ""),
        _most(record.get("MaxMemPerCPU", memory_per_cpu)),
    )


def _most(text: str) -> float:
    """Return a number, or infinity for `UNLIMITED` and where nothing is said."""
    return int(text) if text.isdigit() else math.inf

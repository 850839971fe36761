"""Reads limits, sizes and availability of Slurm's partitions and nodes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from argosy.schedulers.slurm.answers import (
    UnreadableError,
    columns,
    read_records,
    read_table,
    span_seconds,
)
from argosy.schedulers.slurm.given import offered_gres

PARTITION_QUESTION = ("scontrol", "show", "partition", "-o")


@dataclass(frozen=True)
class Partition:
    """A partition; a missing limit is infinite."""

    name: str
    is_default: bool
    minutes: float
    nodes: float
    state: str
    """UP; DOWN: it queues jobs but starts none; DRAIN, INACTIVE: it accepts none."""
    memory_per_cpu: float = math.inf
    """MiB per CPU; for more memory Slurm allocates and charges more CPUs."""


def read_partitions(text: str, of_all: str = "") -> list[Partition]:
    """Return the partitions of the answer to PARTITION_QUESTION.

    Args:
        of_all: the cluster's MaxMemPerCPU, for partitions without one.

    Raises:
        UnreadableError: if the output has no answer.
    """
    records = read_records(text, "PartitionName")
    if not records:
        raise UnreadableError("Slurm lists no partition", text)
    return [_partition(each, of_all) for each in records]


def partition_of(values: Mapping[str, str | None], partitions: list[Partition]) -> Partition | None:
    """Return the script's partition, or the default one; None if unknown or several."""
    named = values.get("partition")
    fitting = (
        each for each in partitions if (each.is_default if named is None else each.name == named)
    )
    return next(fitting, None)


def _partition(record: Mapping[str, str], memory_per_cpu: str) -> Partition:
    span = span_seconds(record.get("MaxTime", ""))
    return Partition(
        record["PartitionName"],
        record.get("Default") == "YES",
        math.inf if span is None else span / 60,
        _most(record.get("MaxNodes", "")),
        record.get("State", ""),
        _most(record.get("MaxMemPerCPU", memory_per_cpu)),
    )


def _most(text: str) -> float:
    """Return a number, or infinity for `UNLIMITED` and empty values."""
    return int(text) if text.isdigit() else math.inf


NODE_FIELDS = ("%R", "%P", "%n", "%c", "%m", "%G", "%f", "%t", "%E")
"""Fields of sinfo: partition, partition with a mark if default, node, CPUs, MiB, gres, features, state,
reason."""
NODE_QUESTION = ("sinfo", "-N", f"--format={columns(NODE_FIELDS)}")

AWAY = ("down", "drain", "drng", "fail", "failg", "inval", "maint", "resv", "unk")
"""Compact states of sinfo(1) in which a node accepts no new jobs for now."""

_MARKS = "*~#!%$@^-+"


@dataclass(frozen=True)
class Node:
    """A node as a member of one partition."""

    partition: str
    in_default: bool
    """Whether the partition is the default one."""
    name: str
    cpus: int
    memory: int
    """MiB."""
    gres: Mapping[str, int]
    """By `name` and by `name:type`."""
    features: frozenset[str]
    state: str
    reason: str

    @property
    def away(self) -> bool:
        """Whether the node accepts no jobs now."""
        # A star marks a node that does not respond. Other marks are power states.
        return "*" in self.state or self.state.rstrip(_MARKS) in AWAY


def read_nodes(text: str) -> list[Node]:
    """Return the nodes of sinfo's answer, except nodes of unknown size.

    Raises:
        UnreadableError: if the output has no answer.
    """
    return [_node(row) for row in read_table(text, len(NODE_FIELDS)) if (row[3] + row[4]).isdigit()]


def in_partition(named: str | None, nodes: list[Node]) -> list[Node]:
    """Return the nodes of the first existing named partition, or of the default one."""
    if named is None:
        return [each for each in nodes if each.in_default]
    known = {each.partition for each in nodes}
    first = next((name for name in named.split(",") if name in known), None)
    return [each for each in nodes if each.partition == first]


def _node(row: list[str]) -> Node:
    partition, marked, name, cpus, memory, resources, features, state, reason = row
    return Node(
        partition=partition,
        in_default=marked.endswith("*"),
        name=name,
        cpus=int(cpus),
        memory=int(memory),
        gres=offered_gres(resources) if ":" in resources else {},
        features=frozenset(features.split(",")),
        state=state,
        reason="" if reason == "none" else reason.strip(),
    )

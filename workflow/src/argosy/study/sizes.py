"""The keys `scale`, `resources` and `checkpoints` of config/config.yaml."""

import re
from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WrapValidator, field_validator

from argosy.study.values import several
from argosy.validation import (
    COUNT_SCHEMA,
    IF_SET,
    Count,
    Mebibytes,
    Model,
    Natural,
    Seconds,
    from_text,
    one_or_several,
)

GPU = "gpu"
"""Value of `ranks_per_node`: one rank for each GPU of a node."""


def count_or_gpu(value: object) -> object:
    """Accept a count or `gpu`."""
    count = from_text(value)
    if value == GPU or (type(count) is int and 1 <= count <= 1 << 20):
        return count
    raise ValueError("write a whole number from 1 on, or gpu for a rank on each GPU")


class NodeRange(int):
    """A number of nodes, of which `least` suffice to continue after losing nodes."""

    least: int

    @classmethod
    def of(cls, value: object) -> object:
        """Parse a text such as `2..4`; return other values unchanged."""
        found = (
            re.fullmatch(r"([0-9]{1,7})\.\.([0-9]{1,7})", value) if isinstance(value, str) else None
        )
        if found is None:
            return value
        least, most = int(found[1]), int(found[2])
        if not 1 <= least < most:
            raise ValueError(f"{value} is no range: write LEAST..ALL, such as 2..4")
        nodes = cls(most)
        nodes.least = least
        return nodes


def least_of(nodes: int) -> int:
    """Return the fewest nodes with which a run continues after losing nodes."""
    return nodes.least if isinstance(nodes, NodeRange) else nodes


def _ranges(value: object, handler: Callable[[object], int]) -> int:
    """Accept a range of nodes or a number of nodes."""
    found = NodeRange.of(value)
    return found if isinstance(found, NodeRange) and handler(int(found)) else handler(found)


_NODES_SCHEMA = {"anyOf": [COUNT_SCHEMA, {"type": "string", "pattern": r"^[0-9]+\.\.[0-9]+$"}]}


class Scale(Model):
    """The sizes to measure: each one `repeats` times, in separate jobs."""

    kind: Literal["strong", "weak"] = "strong"
    """strong: the same problem at every size; weak: the problem grows with the ranks."""
    nodes: Annotated[
        tuple[Annotated[Count, WrapValidator(_ranges)], ...],
        BeforeValidator(several),
        Field(min_length=1),
        one_or_several(_NODES_SCHEMA),
    ]
    """Node counts, one for each size; `2..4`: 4 nodes, and at least 2 after losing nodes."""
    ranks_per_node: Annotated[
        tuple[Annotated[int | Literal["gpu"], BeforeValidator(count_or_gpu)], ...],
        BeforeValidator(several),
        Field(min_length=1),
        one_or_several({"anyOf": [COUNT_SCHEMA, {"const": GPU}]}),
    ] = (1,)
    """Ranks per node, default 1; gpu: one for each GPU of a node. Of several counts, only the largest is
    measured on more than the fewest nodes."""
    repeats: Annotated[Count, Field(le=10_000)] = 3
    """Number of independent jobs of each size."""

    @field_validator("nodes", "ranks_per_node")
    @classmethod
    def each_once(cls, counts: tuple[int | str, ...]) -> tuple[int | str, ...]:
        """Refuse a count that is listed twice."""
        if len(set(counts)) != len(counts):
            raise ValueError("the same count is listed twice")
        return counts

    @property
    def size(self) -> int:
        return len(self.nodes) + len(self.ranks_per_node) - 1

    @property
    def counts(self) -> list[int]:
        """Ranks per node, without `gpu`."""
        return [each for each in self.ranks_per_node if isinstance(each, int)]

    def on(self, gpus: int) -> "Scale":
        """Replace `gpu` by the number of GPUs per node."""
        counts = {each if isinstance(each, int) else gpus for each in self.ranks_per_node}
        return self.model_copy(update={"ranks_per_node": tuple(sorted(counts))})

    @property
    def points(self) -> list[tuple[int, int]]:
        """(nodes, ranks per node) of each size: first the fewest nodes fill up, then nodes are added."""
        fewest, *_ = nodes = sorted(self.nodes)
        *partial, full = sorted(self.counts)
        return [*((fewest, ranks) for ranks in partial), *((each, full) for each in nodes)]


class Resources(Model):
    """Resources of one rank, and the time limit of one run."""

    cpus_per_rank: Count = 1
    """Cores of each rank, and threads of its libraries."""
    bind: Annotated[
        Literal["none", "core", "numa"], Field(exclude_if=lambda bind: bind == "none")
    ] = "none"
    """CPU binding of ranks: core: own cores; numa: a NUMA domain; none: all CPUs of the job."""
    gpus_per_rank: Natural = 0
    """GPUs of each rank."""
    memory_per_rank: Mebibytes = 2048
    """Memory of each rank (as a number, in MiB)."""
    time: Annotated[Seconds, Field(ge=60)] = 1800
    """Time limit of a run (as a number, in seconds)."""
    time_from_nodes: Annotated[dict[Count, Annotated[Seconds, Field(ge=60)]], IF_SET] = {}
    """Time limits that replace `time` from a number of nodes on: `{4: 40m}`."""
    same_allocation: Annotated[bool, BeforeValidator(from_text), Field(strict=True), IF_SET] = False
    """Measure all runs of a repeat in one job, one after another on the same nodes."""

    def on(self, nodes: int) -> "Resources":
        """Return the resources of a run on `nodes` nodes."""
        reached = [least for least in self.time_from_nodes if least <= nodes]
        time = self.time_from_nodes[max(reached)] if reached else self.time
        return self.model_copy(update={"time": time, "time_from_nodes": {}})


class Checkpoints(Model):
    """Settings for a program that saves its state on SIGUSR1, and continues from there."""

    warning: Annotated[Seconds, Field(ge=1)] = 120
    """Seconds before the time limit at which the ranks get SIGUSR1."""
    requeues: Natural = 10
    """How often an interrupted run is requeued automatically."""
    restarts: Annotated[Natural, Field(exclude_if=lambda times: not times)] = 0
    """How often a run restarts within its job after losing a rank or node, from its last checkpoint."""

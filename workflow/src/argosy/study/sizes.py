"""Keys of config/config.yaml on the sizes of a study: its points, resources, and what is saved."""

import re
from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import (
    BeforeValidator,
    Field,
    WrapValidator,
    field_validator,
)

from argosy.study.values import Model, several
from argosy.validation import (
    COUNT_SCHEMA,
    Count,
    Mebibytes,
    Natural,
    Seconds,
    from_text,
    one_or_several,
)

GPU = "gpu"
"""In place of a number of ranks: as many as a node of the site has GPUs."""


def count_or_gpu(value: object) -> object:
    """Refuse all but a count and the word."""
    count = from_text(value)
    if value == GPU or (type(count) is int and 1 <= count <= 1 << 20):
        return count
    raise ValueError("write a whole number from 1 on, or gpu for a rank on each GPU")


class NodeRange(int):
    """A number of nodes, of which `least` are enough to go on with when nodes are lost."""

    least: int

    @classmethod
    def of(cls, value: object) -> object:
        """Return the range that a text such as `2..4` names; other values as they are."""
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
    """Return the fewest nodes with which a run of so many goes on."""
    return nodes.least if isinstance(nodes, NodeRange) else nodes


def _ranges(value: object, handler: Callable[[object], int]) -> int:
    """Accept a range of nodes beside a number of them."""
    found = NodeRange.of(value)
    return found if isinstance(found, NodeRange) and handler(int(found)) else handler(found)


_NODES_SCHEMA = {"anyOf": [COUNT_SCHEMA, {"type": "string", "pattern": r"^[0-9]+\.\.[0-9]+$"}]}


class Scale(Model):
    """Which points are measured: every node count, each `repeats` times as jobs of its own."""

    kind: Literal["strong", "weak"] = "strong"
    """strong: the same problem at every size; weak: a problem that grows with the ranks."""
    nodes: Annotated[
        tuple[Annotated[Count, WrapValidator(_ranges)], ...],
        BeforeValidator(several),
        Field(min_length=1),
        one_or_several(_NODES_SCHEMA),
    ]
    """Node counts, one for each size; `2..4`: 4 nodes, and no fewer than 2 after losses."""
    ranks_per_node: Annotated[
        tuple[Annotated[int | Literal["gpu"], BeforeValidator(count_or_gpu)], ...],
        BeforeValidator(several),
        Field(min_length=1),
        one_or_several({"anyOf": [COUNT_SCHEMA, {"const": GPU}]}),
    ] = (1,)
    """Ranks of each node, default 1; gpu: one for each GPU of the site's nodes. Of several, all but the
    largest are measured on the fewest nodes."""
    repeats: Annotated[Count, Field(le=10_000)] = 3
    """Independent jobs of each size."""

    @field_validator("nodes", "ranks_per_node")
    @classmethod
    def each_once(cls, counts: tuple[int | str, ...]) -> tuple[int | str, ...]:
        """Refuse a point that is named twice: it is measured once for each repeat."""
        if len(set(counts)) != len(counts):
            raise ValueError("the same count is listed twice")
        return counts

    @property
    def size(self) -> int:
        """The number of sizes."""
        return len(self.nodes) + len(self.ranks_per_node) - 1

    @property
    def counts(self) -> list[int]:
        """The ranks per node that are numbers."""
        return [each for each in self.ranks_per_node if isinstance(each, int)]

    def on(self, gpus: int) -> "Scale":
        """Return the sizes on nodes that have so many GPUs."""
        counts = {each if isinstance(each, int) else gpus for each in self.ranks_per_node}
        return self.model_copy(update={"ranks_per_node": tuple(sorted(counts))})

    @property
    def points(self) -> list[tuple[int, int]]:
        """The nodes and ranks per node of each size: nodes fill up first, then there are more of them."""
        fewest, *_ = nodes = sorted(self.nodes)
        *partial, full = sorted(self.counts)
        return [*((fewest, ranks) for ranks in partial), *((each, full) for each in nodes)]


class Resources(Model):
    """What one rank needs, and the wall time of one run."""

    cpus_per_rank: Count = 1
    """Cores of each rank, and threads of its libraries."""
    bind: Annotated[
        Literal["none", "core", "numa"], Field(exclude_if=lambda bind: bind == "none")
    ] = "none"
    """CPUs that a rank may use: core: cores of its own; numa: its NUMA domain; none: all of the job."""
    gpus_per_rank: Natural = 0
    """GPUs of each rank."""
    memory_per_rank: Mebibytes = 2048
    """Memory of each rank (as a number, in MiB)."""
    time: Annotated[Seconds, Field(ge=60)] = 1800
    """Time limit of a run (as a number, in seconds)."""
    time_from_nodes: Annotated[
        dict[Count, Annotated[Seconds, Field(ge=60)]], Field(exclude_if=lambda limits: not limits)
    ] = {}
    """Time limits of runs on so many nodes or more, instead of `time`: `{4: 40m}`."""
    same_allocation: Annotated[
        bool, BeforeValidator(from_text), Field(strict=True, exclude_if=lambda wanted: not wanted)
    ] = False
    """All runs of a repeat are measured in one job, one after another on the same nodes.

    Left out where it is not asked for: that must not look like a change of the runs there are.
    """

    def on(self, nodes: int) -> "Resources":
        """Return the resources of a run on so many nodes."""
        reached = [least for least in self.time_from_nodes if least <= nodes]
        time = self.time_from_nodes[max(reached)] if reached else self.time
        return self.model_copy(update={"time": time, "time_from_nodes": {}})


class Checkpoints(Model):
    """For a program that saves its state when it is warned, and continues from what it saved."""

    warning: Annotated[Seconds, Field(ge=1)] = 120
    """Seconds before the time limit at which the ranks get SIGUSR1."""
    requeues: Natural = 10
    """How often a run that was interrupted goes back into the queue by itself."""
    restarts: Annotated[Natural, Field(exclude_if=lambda times: not times)] = 0
    """How often a run that lost a rank or node begins again within its job, from its last checkpoint."""

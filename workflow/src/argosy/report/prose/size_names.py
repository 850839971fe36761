"""Sizes by name, and lists in words."""

from collections.abc import Sequence
from typing import Protocol

from argosy.report.numbers import count
from argosy.report.summary.models import ExperimentSummary


def listed(parts: Sequence[str]) -> str:
    """Return `a`, `a and b`, or `a, b and c`."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


class Size(Protocol):
    """Anything that is of a number of nodes and ranks."""

    @property
    def nodes(self) -> int: ...
    @property
    def ranks_per_node(self) -> int: ...
    @property
    def ranks(self) -> int: ...


def same_width(experiment: ExperimentSummary) -> bool:
    """Return whether all points have as many ranks per node, so that nodes alone name a point."""
    return _same_width(experiment.points)


def size(experiment: ExperimentSummary, point: Size) -> str:
    """Return a point by name, among those of its experiment."""
    return name_among(experiment.points, point)


def name_among(among: Sequence[Size], one: Size) -> str:
    """Return a size by name: `2 nodes`, with its ranks where nodes alone would not tell."""
    nodes = count(one.nodes, "node")
    return nodes if _same_width(among) else f"{nodes} with {count(one.ranks, 'rank')}"


def _same_width(among: Sequence[Size]) -> bool:
    return len({one.ranks_per_node for one in among}) <= 1

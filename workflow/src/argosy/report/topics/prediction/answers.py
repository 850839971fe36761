"""How many nodes to take.

All whole numbers are tried: efficiency is no monotone function of the nodes where algorithms work
in rounds, and powers of two are better than their neighbours.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from argosy.report.topics.laws import Refused
from argosy.report.topics.prediction.predict import Scatter, drawn, least_efficiency
from argosy.report.topics.prediction.training import (
    Training,
    as_fitted,
    samples_per_step,
    sizes_with_work,
    steps,
    unknown_networks,
)

MOST_NODES = 4096

_ROUNDING = 1e-12


def largest_with_efficiency(
    training: Training, efficiency: float, most: int = MOST_NODES
) -> int | Refused:
    """Return the largest number of nodes, up to `most`, with this efficiency against one node."""
    sizes = _sizes(training, most)
    if isinstance(sizes, Refused):
        return sizes
    speeds = _samples_per_node_s(training, sizes)
    # What is as good as wanted but for rounding is as good.
    enough = [
        nodes
        for nodes, speed in zip(sizes, speeds, strict=True)
        if speed >= efficiency * speeds[0] * (1 - _ROUNDING)
    ]
    return max(enough) if enough else Refused("No number of nodes has this efficiency.")


def largest_surely_with_efficiency(
    training: Training, efficiency: float, scatter: Scatter, likely: int
) -> int:
    """Return the number of nodes, up to the `likely` one, up to which the lower end is at this efficiency.

    It is sought by halves: with more nodes efficiency falls, but for powers of two beside their neighbours.
    """
    draws = drawn(training, scatter)
    sure, unsure = 1, likely + 1
    while unsure - sure > 1:
        nodes = (sure + unsure) // 2
        if least_efficiency(training, nodes, draws) >= efficiency:
            sure = nodes
        else:
            unsure = nodes
    return sure


def fastest_within(
    training: Training,
    node_hours: float,
    samples: float,
    most: int = MOST_NODES,
    measured_s: Mapping[int, float] | None = None,
) -> int | Refused:
    """Return the number of nodes, up to `most`, that trains `samples` samples soonest in `node_hours`.

    Where a step was measured, it counts instead of the predicted one.
    """
    sizes = _sizes(training, most)
    if isinstance(sizes, Refused):
        return sizes
    speeds = dict(zip(sizes, _samples_per_node_s(training, sizes), strict=True))
    for nodes, seconds in (measured_s or {}).items():
        if nodes in speeds:
            speeds[nodes] = samples_per_step(training, nodes) / (seconds * nodes)
    within = [nodes for nodes in sizes if samples / speeds[nodes] <= node_hours * 3600]
    if not within:
        return Refused("No number of nodes trains so many samples in so few node-hours.")
    return max(within, key=lambda nodes: nodes * speeds[nodes])


def _sizes(training: Training, most: int) -> list[int] | Refused:
    sizes = sizes_with_work(training, range(1, most + 1))
    if not sizes:
        return Refused("Not even one node has a sample for each rank in a step.")
    return unknown_networks(training, sizes) or sizes


def _samples_per_node_s(training: Training, sizes: Sequence[int]) -> list[float]:
    step_s = steps(training, sizes, as_fitted(training, len(sizes))).step_s
    samples = np.array([samples_per_step(training, nodes) for nodes in sizes])
    return [float(speed) for speed in samples / (step_s * np.array(sizes))]

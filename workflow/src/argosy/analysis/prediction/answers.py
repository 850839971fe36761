"""How many nodes to take.

All whole numbers are tried: efficiency is no monotone function of the nodes where algorithms work
in rounds, and powers of two are better than their neighbours.
"""

from argosy.analysis.laws import Refused
from argosy.analysis.prediction.predict import Scatter, predict
from argosy.analysis.prediction.training import (
    Training,
    samples_per_step,
    sizes_with_work,
    step_s,
    unknown_networks,
)

MOST_NODES = 4096


def largest_with_efficiency(
    training: Training, efficiency: float, most: int = MOST_NODES
) -> int | Refused:
    """The largest number of nodes, up to `most`, with this efficiency against one node."""
    sizes = _sizes(training, most)
    if isinstance(sizes, Refused):
        return sizes
    wanted = efficiency * _samples_per_node_s(training, 1)
    for nodes in reversed(sizes):
        if _samples_per_node_s(training, nodes) >= wanted:
            return nodes
    return Refused("No number of nodes has this efficiency.")


def largest_surely_with_efficiency(
    training: Training, efficiency: float, scatter: Scatter, likely: int
) -> int | None:
    """The number of nodes, up to the `likely` one, up to which the lower end is at this efficiency.

    It is sought by halves: with more nodes efficiency falls, but for powers of two beside their neighbours.
    """
    sure, unsure = 1, likely + 1
    while unsure - sure > 1:
        nodes = (sure + unsure) // 2
        found = predict(training, [1, nodes], 1.0, scatter=scatter)
        if isinstance(found, Refused):
            return None
        if found[-1].efficiency.low >= efficiency:
            sure = nodes
        else:
            unsure = nodes
    return sure


def fastest_within(
    training: Training, node_hours: float, samples: float, most: int = MOST_NODES
) -> int | Refused:
    """The number of nodes, up to `most`, that trains `samples` samples soonest in `node_hours`."""
    sizes = _sizes(training, most)
    if isinstance(sizes, Refused):
        return sizes
    speeds = {nodes: _samples_per_node_s(training, nodes) for nodes in sizes}
    within = [nodes for nodes in sizes if samples / speeds[nodes] <= node_hours * 3600]
    if not within:
        return Refused("No number of nodes trains so many samples in so few node-hours.")
    return max(within, key=lambda nodes: nodes * speeds[nodes])


def _sizes(training: Training, most: int) -> list[int] | Refused:
    sizes = sizes_with_work(training, range(1, most + 1))
    if not sizes:
        return Refused("Not even one node has a sample for each rank in a step.")
    return unknown_networks(training, sizes) or sizes


def _samples_per_node_s(training: Training, nodes: int) -> float:
    return samples_per_step(training, nodes) / (step_s(training, nodes) * nodes)

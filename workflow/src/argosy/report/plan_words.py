"""A prediction in words: the answers, and what they rest on."""

from argosy.report import numbers
from argosy.report.prediction import NetworkSummary, PredictionSummary


def sentences(found: PredictionSummary) -> list[str]:
    """The answers, what they rest on, and what had to be assumed."""
    return [*answers(found), *grounds(found)]


def answers(found: PredictionSummary) -> list[str]:
    """How many nodes to take."""
    wanted = numbers.percent(found.asked_efficiency)
    if found.nodes_with_efficiency is None:
        said = [f"No number of nodes has an efficiency of {wanted}."]
    else:
        nodes = numbers.count(found.nodes_with_efficiency, "node")
        said = [f"The efficiency is {wanted} or more up to {nodes}."]
    if found.asked_node_hours is None:
        return said
    budget = f"{numbers.number(found.asked_node_hours)} node-hours"
    if found.nodes_within is None:
        return [*said, f"No number of nodes trains so many samples within {budget}."]
    hours = next(one.hours.mean for one in found.points if one.nodes == found.nodes_within)
    nodes = numbers.count(found.nodes_within, "node")
    return [*said, f"Fastest within {budget}: {nodes}, {numbers.number(hours)} h."]


def grounds(found: PredictionSummary) -> list[str]:
    """What the prediction rests on."""
    networks = (("within a node", found.within_node), ("between nodes", found.between_nodes))
    said = [
        f"The network {place}, by {found.collectives} ({found.algorithm}): {_network(network)}."
        for place, network in networks
        if network
    ]
    if found.network_factor > 1:
        factor = numbers.number(found.network_factor)
        said.append(f"In training it is {factor} times as slow, by the step on two nodes.")
    return [*said, *found.notes]


def _network(network: NetworkSummary) -> str:
    latency, rate = network.latency_s, network.bytes_per_s
    speed = f"{numbers.number(rate.mean / 1e6)} MB/s" if rate else "no limit of its rate seen"
    return f"{numbers.number(1e6 * latency.mean)} µs a message, {speed}"

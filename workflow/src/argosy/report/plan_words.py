"""A prediction in the terminal: a table, and the answers as sentences."""

from rich import box
from rich.markup import escape
from rich.table import Table

from argosy.report import numbers
from argosy.report.prediction import NetworkSummary, PredictedPoint, PredictionSummary

_ALWAYS = (
    *("nodes", "step\nms", "95 %\ninterval", "measured\nms", "error", "effi-\nciency", "hours"),
    "node-\nhours",
)


def table(experiment: str, found: PredictionSummary, currency: str | None) -> Table:
    """A row for each number of nodes; columns of energy and price only where they are known."""
    title = f"{experiment}, predicted for {numbers.number(found.samples, 6)} samples"
    shown = Table(
        title=escape(title),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
    more = [
        (name, attribute)
        for name, attribute in (
            ("kWh", "energy_kwh"),
            (escape(currency or "price"), "price"),
            ("kg CO₂", "carbon_kg"),
        )
        if any(getattr(point, attribute) for point in found.points)
    ]
    for column in (*_ALWAYS, *(name for name, _ in more)):
        shown.add_column(column, justify="right", no_wrap=True)
    for point in found.points:
        known = (getattr(point, attribute) for _, attribute in more)
        shown.add_row(*_cells(point), *(numbers.number(one.mean) for one in known if one))
    return shown


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


def _cells(point: PredictedPoint) -> tuple[str, ...]:
    return (
        str(point.nodes),
        _milliseconds(point.step_s.mean),
        f"{_milliseconds(point.step_s.low)} to {_milliseconds(point.step_s.high)}",
        _milliseconds(point.measured_step_s),
        numbers.percent(point.error, 1),
        numbers.percent(point.efficiency.mean),
        numbers.number(point.hours.mean),
        numbers.number(point.node_hours.mean),
    )


def _milliseconds(seconds: float | None) -> str:
    return numbers.number(None if seconds is None else 1000 * seconds)

"""Sentences, table and chart of a prediction."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from argosy.report import numbers
from argosy.report.colours import BLUE, VERMILION
from argosy.report.drawing import Drawing, finished, tooltip
from argosy.report.numbers import NONE, count, interval, number, percent
from argosy.report.statistics.estimates import Estimate
from argosy.report.summary.models import ExperimentSummary, Summary
from argosy.report.summary.parts import NetworkSummary, PredictedPoint, PredictionSummary
from argosy.report.table import Column, Quantity, Table, column, estimate, known


def sentences(found: PredictionSummary) -> list[str]:
    """Return the answers, their grounds and assumptions."""
    return [*answers(found), *grounds(found)]


def answers(found: PredictionSummary) -> list[str]:
    """Return sentences on the numbers of nodes that answer the questions."""
    said = _efficiency(found)
    if found.asked_node_hours is None:
        return said
    budget = f"{numbers.number(found.asked_node_hours)} node-hours"
    if found.misses:
        return said
    if found.nodes_within is None:
        return [*said, f"No number of nodes trains so many {found.unit} within {budget}."]
    one = next(one for one in found.points if one.nodes == found.nodes_within)
    hours, told = one.hours.mean, ""
    if one.error is not None:
        hours, told = hours / (1 + one.error), " by the measured throughput"
    nodes = numbers.count(found.nodes_within, "node")
    return [*said, f"Fastest within {budget}: {nodes}, {numbers.number(hours)} h{told}."]


def _efficiency(found: PredictionSummary) -> list[str]:
    wanted = numbers.percent(found.asked_efficiency)
    likely, surely = found.nodes_with_efficiency, found.nodes_surely_with_efficiency
    if found.misses:
        missed = " and ".join(numbers.count(nodes, "node") for nodes in found.misses)
        measured = "at no size" if likely is None else f"up to {numbers.count(likely, 'node')}"
        return [
            f"The measurement on {missed} lies outside the prediction, so do not rely on it: "
            f"an efficiency of {wanted} or more is measured {measured}, and other sizes are unknown."
        ]
    if likely is None:
        return [f"No number of nodes has an efficiency of {wanted}."]
    if likely == 1:
        return [f"On more than one node the efficiency is below {wanted}."]
    nodes = numbers.count(likely, "node")
    if surely is None and found.method == "universal law":
        return [
            f"The efficiency is {wanted} or more up to {nodes} by the best estimate, surely at no size."
        ]
    if surely is None:
        return [
            f"The efficiency is {wanted} or more up to {nodes} by the best estimate, without an interval."
        ]
    sure = "" if surely == likely else f", and surely up to {surely:,}"
    end = ", the largest predicted size," if likely == found.farthest_nodes else ""
    return [f"The efficiency is {wanted} or more up to {nodes}{end} by the best estimate{sure}."]


def grounds(found: PredictionSummary) -> list[str]:
    """Return sentences on the grounds and limits of the prediction."""
    if found.method == "universal law":
        return found.notes
    networks = (("within a node", found.within_node), ("between nodes", found.between_nodes))
    said = [
        f"The network {place}, by {found.collectives} ({found.algorithm}): {_network(network)}."
        for place, network in networks
        if network
    ]
    if found.network_factor > 1:
        factor = numbers.number(found.network_factor)
        said.append(
            f"In training the network is {factor} times as slow, according to the step on "
            "two nodes."
        )
    return [*said, *found.notes, *_limits(found)]


def _limits(found: PredictionSummary) -> list[str]:
    measured = numbers.count(found.interval_nodes, "node")
    said = [
        "The prediction does not include shared cables and switches, other jobs on the network, "
        "the load on storage, slower nodes or falling clocks."
    ]
    if any(point.nodes > found.interval_nodes for point in found.points):
        said.append(
            f"Nothing was measured on more than {measured}. Rows beyond are extrapolated and have "
            "no interval; to get intervals, benchmark allreduces on these sizes."
        )
    return said


def _network(network: NetworkSummary) -> str:
    latency, rate = network.latency_s, network.bytes_per_s
    speed = f"{numbers.number(rate.mean / 1e6)} MB/s" if rate else "no bandwidth limit seen"
    return f"{numbers.number(1e6 * latency.mean)} µs a message, {speed}"


_CAPTION = (
    "Predicted beside measured. Line: predicted throughput; band: 95 % interval for a future "
    "run; dots: measured. Both axes are logarithmic."
)
PREDICTED, MEASURED = "predicted", "measured"
COLOURS = {PREDICTED: BLUE, MEASURED: VERMILION}


def drawings(experiment: ExperimentSummary) -> Iterator[Drawing]:
    """Yield the chart of an experiment's prediction, if there is one."""
    if found := experiment.prediction:
        chart = finished(_chart(found))
        yield Drawing("prediction", "prediction", _CAPTION, _text(found), chart, dict(COLOURS))


def _text(found: PredictionSummary) -> str:
    """Return the alternative text of the chart."""
    compared = [
        f"{count(point.nodes, 'node')} {number(point.samples_per_s.mean)} {found.unit}/s predicted, "
        f"{number(point.measured_samples_per_s)} measured"
        for point in found.points
        if point.measured_samples_per_s is not None
    ]
    last = found.points[-1]
    farthest = (
        f"{count(last.nodes, 'node')} {number(last.samples_per_s.mean)} {found.unit}/s predicted"
    )
    said = compared if last.measured_samples_per_s is not None else [*compared, f"up to {farthest}"]
    listed = "; ".join(said)
    return f"Line chart of throughput: {listed}. The table of the prediction has all sizes."


def _chart(found: PredictionSummary) -> dict[str, Any]:
    """Return a chart of throughput over nodes, with logarithmic axes."""
    unit = found.unit
    nodes = [point.nodes for point in found.points]
    area = {"type": "area", "opacity": 0.2}
    dot = {"type": "point", "filled": True, "size": 55, "opacity": 1}
    small = dot | {"size": 18}
    return {
        "params": [{"name": "shown", "value": [*COLOURS]}],
        "data": {"values": [_row(point) for point in found.points]},
        "encoding": {
            "x": {
                "field": "nodes",
                "type": "quantitative",
                "title": "nodes",
                "scale": {"type": "log", "base": 2},
                "axis": {"values": nodes, "format": "d", "grid": False, "labelOverlap": "greedy"},
            }
        },
        "layer": [
            _layer(PREDICTED, area, "low", y=_y("low", unit), y2={"field": "high"}),
            _layer(PREDICTED, {"type": "line"}, y=_y(PREDICTED, unit)),
            _layer(PREDICTED, small, y=_y(PREDICTED, unit), tooltip=_TOLD),
            _layer(MEASURED, dot, y=_y(MEASURED, unit), tooltip=_TOLD),
        ],
    }


_TOLD = tooltip(
    at="size", rate="predicted", interval="95 % interval", found="measured", error="error"
)


def _layer(
    series: str, mark: dict[str, Any], needed: str | None = None, **encoding: Any
) -> dict[str, Any]:
    shown = f"indexof(shown, '{series}') >= 0 && isValid(datum.{needed or series})"
    colour = {"value": COLOURS[series]}
    return {
        "transform": [{"filter": shown}],
        "mark": mark,
        "encoding": encoding | {"color": colour},
    }


def _y(field: str, unit: str) -> dict[str, Any]:
    return {
        "field": field,
        "type": "quantitative",
        "title": f"{unit}/s",
        "scale": {"type": "log", "nice": True},
        "axis": {"tickCount": 5},
    }


def _row(point: PredictedPoint) -> dict[str, Any]:
    rate, measured = point.samples_per_s, point.measured_samples_per_s
    return {
        "nodes": point.nodes,
        PREDICTED: rate.mean,
        "low": rate.low,
        "high": rate.high,
        MEASURED: measured,
        "at": count(point.nodes, "node"),
        "rate": number(rate.mean),
        "interval": interval(rate),
        "found": number(measured),
        "error": percent(point.error, 1),
    }


def tables(experiment: ExperimentSummary) -> Iterator[Table | str]:
    """Yield the table of an experiment's prediction, or a sentence why there is none."""
    if experiment.prediction:
        yield table(experiment.experiment, experiment.prediction, None)
    elif experiment.points:
        yield f"No prediction: {experiment.no_prediction}"


def table(experiment: str, found: PredictionSummary, currency: str | None) -> Table:
    """Return the table of a prediction, with a row for each number of nodes and prices in `currency`."""
    points = found.points
    is_by_network = found.method == "network"
    how = (
        "Predicted from the step on one and two nodes and from allreduce benchmarks"
        if is_by_network
        else "Extrapolated by the universal law from throughputs alone"
    )
    return Table(
        [*_predicted(points, found.unit), *_costs(points, currency)],
        f"{how}; hours and node-hours are for {number(found.samples, 6)} {found.unit}. Intervals "
        "describe a future run.",
        f"Prediction for {experiment}",
        "prediction",
        folded=f"{'Prediction' if is_by_network else 'Extrapolation'}: more nodes than were measured",
        said=sentences(found),
        paper="predicted and measured throughput",
    )


def _predicted(points: Sequence[PredictedPoint], unit: str) -> list[Column]:
    def mean(page: str, of: Callable[[PredictedPoint], Estimate], terminal: str) -> Column:
        return column(points, page, lambda one: number(of(one).mean), terminal=terminal)

    return [
        column(points, "Nodes", lambda one: str(one.nodes), terminal="nodes", paper="Nodes"),
        column(points, "Ranks", lambda one: str(one.ranks), paper="Ranks"),
        column(points, "", lambda one: estimate(one.samples_per_s), paper=f"{unit.capitalize()}/s"),
        mean(f"{unit.capitalize()}/s", lambda one: one.samples_per_s, f"{unit}/s"),
        column(
            points, "Interval", lambda one: interval(one.samples_per_s), terminal="95 %\ninterval"
        ),
        column(
            points,
            "Measured",
            lambda one: number(one.measured_samples_per_s),
            terminal="measured",
            paper="Measured",
        ),
        column(points, "Error", lambda one: percent(one.error, 1), terminal="error"),
        column(points, "", _error_in_percent, paper=r"Error (\%)"),
        column(
            points, "Efficiency", lambda one: percent(one.efficiency.mean), terminal="efficiency"
        ),
        column(points, "", lambda one: number(one.efficiency.mean), paper="Efficiency"),
        mean("Hours", lambda one: one.hours, "hours"),
        mean("Node-hours", lambda one: one.node_hours, "node\nhours"),
    ]


def _error_in_percent(point: PredictedPoint) -> str:
    return NONE if point.error is None else f"{round(100 * point.error, 1) + 0.0:+.1f}"


def _costs(points: Sequence[PredictedPoint], currency: str | None) -> Iterator[Column]:
    """Yield the known columns among energy, price and carbon, for the terminal."""
    for heading, costs in (
        ("kWh", [point.energy_kwh for point in points]),
        (currency or "price", [point.price for point in points]),
        ("kg CO₂", [point.carbon_kg for point in points]),
    ):
        if any(costs):
            yield column(costs, "", lambda one: number(one.mean if one else None), terminal=heading)


def methods(summary: Summary) -> Iterator[str]:
    """Describe each method of prediction that was used."""
    used = {one.prediction.method for one in summary.experiments if one.prediction}
    if "network" in used:
        yield (
            "Unmeasured sizes are predicted from the measured steps, the layers' times, and the "
            "network's latency and bandwidth."
        )
    if "universal law" in used:
        yield (
            "Sizes up to twice the largest are extrapolated by the universal scalability law, from "
            "throughputs alone."
        )


def quantities(point: PredictedPoint) -> Iterator[Quantity]:
    """Yield the rows of summary.csv."""
    error = point.error
    return known(
        ("predicted_step", "s", point.step_s),
        ("predicted_efficiency", "1", point.efficiency),
        ("predicted_throughput", "samples/s", point.samples_per_s),
        (
            "predicted_step_error",
            "1",
            None if error is None else Estimate(point.samples_per_s.n, error),
        ),
    )

"""Read the inputs of predictions from the tables: layers, settings, allreduces, batches, spreads."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Literal

from argosy.report.runs.measurements import Measurement, Point
from argosy.report.runs.study_tables import StudyTables
from argosy.report.statistics.estimates import ratio_estimate
from argosy.report.topics.laws.fits import Refused
from argosy.report.topics.phases import StepTime
from argosy.report.topics.prediction.communication import AllreduceTime
from argosy.report.topics.prediction.step import Horovod, Layer, split_layers
from argosy.report.topics.prediction.training import Scatter

# Repeats have the same settings; after an incomplete change, the last run counts.
_SETTINGS = """
SELECT experiment, nodes, ranks_per_node, ranks, horovod_cycle_s, horovod_fusion_bytes
FROM runs WHERE state = 'completed' ORDER BY started_unix_s
"""


def horovod_settings(tables: StudyTables) -> Mapping[tuple[str, Point], Horovod]:
    """Return cycle time and fusion threshold by experiment and point, or Horovod's defaults."""
    default = Horovod()
    found = {}
    for row in tables.fetch(_SETTINGS):
        point = Point.of(row)
        cycle_s, fusion_bytes = row["horovod_cycle_s"], row["horovod_fusion_bytes"]
        found[row["experiment"], point] = Horovod(
            default.cycle_s if cycle_s is None else cycle_s,
            default.fusion_threshold_bytes if fusion_bytes is None else fusion_bytes,
        )
    return found


# A layer that is ready together with the previous one takes no time. Medians are robust against a rank that
# was interrupted once.
_LAYERS = """
SELECT experiment, runs.ranks, nodes, ranks_per_node, min(place) AS place, layers.name,
    max(bytes) AS bytes,
    CASE WHEN count(*) = count(ready_s) THEN median(ready_s) END AS ready_s
FROM layers JOIN runs USING (experiment, run_id)
WHERE bytes > 0
GROUP BY ALL ORDER BY experiment, runs.ranks, nodes, ready_s, place, layers.name
"""


@dataclass(frozen=True)
class LayerTimes:
    """Layers in the order of back-propagation; `are_timed`: ready times were measured.

    Otherwise times are proportional to bytes and add up to 1 s.
    """

    layers: Sequence[Layer]
    are_timed: bool


def layer_times(tables: StudyTables) -> Mapping[tuple[str, Point], LayerTimes]:
    """Return the recorded layers by experiment and point."""
    rows: dict[tuple[str, Point], list[tuple[str, float, float | None]]] = {}
    for row in tables.fetch(_LAYERS):
        point = Point.of(row)
        layer = (row["name"], row["bytes"], row["ready_s"])
        rows.setdefault((row["experiment"], point), []).append(layer)
    return {key: _layer_times(layers) for key, layers in rows.items()}


def _layer_times(rows: Sequence[tuple[str, float, float | None]]) -> LayerTimes:
    ready = [at_s for _, _, at_s in rows if at_s is not None]
    if len(ready) < len(rows) or not any(ready):
        return LayerTimes(split_layers({name: size for name, size, _ in rows}, 1.0), False)
    own = (after - before for before, after in zip([0.0, *ready], ready, strict=False))
    layers = [Layer(name, size, own_s) for (name, size, _), own_s in zip(rows, own, strict=True)]
    return LayerTimes(layers, True)


# Only trainings with recorded layers, on the sizes of the calibration: one and two nodes. Common effects of
# a step are in its mean. Without the phase `communication`, waiting makes all ranks equally long, so such
# steps are not used.
_SPREADS = """
WITH looked_at AS (
    SELECT experiment, run_id, any_value(first) AS first, any_value(nodes) AS nodes,
        any_value(ranks_per_node) AS ranks_per_node, any_value(ranks) AS ranks
    FROM runs JOIN steady_rank USING (experiment, run_id)
    WHERE state = 'completed' AND len(missing_ranks) = 0 AND ranks > 1 AND nodes <= 2
        AND experiment IN (SELECT experiment FROM layers)
    GROUP BY ALL
), of_step AS (
    SELECT experiment, nodes, ranks_per_node, ranks, run_id, step,
        count(communication_s) = count(*) AS is_told, count(*) - 1 AS freedom,
        freedom * var_samp(ln(greatest(seconds - communication_s, 0.001 * seconds))) AS squares
    FROM steps JOIN looked_at USING (experiment, run_id)
    WHERE step >= first AND seconds > 0 GROUP BY ALL
)
SELECT experiment, nodes, ranks_per_node, ranks, sqrt(sum(squares) / sum(freedom)) AS spread
FROM of_step GROUP BY ALL HAVING bool_and(is_told) AND sum(freedom) > 0
ORDER BY experiment, ranks, nodes
"""


def rank_spreads(tables: StudyTables) -> dict[tuple[str, Point], float]:
    """Return the standard deviation of ranks' log own work around a step's mean, by experiment and point.

    It covers steady steps of several ranks on one or two nodes, with recorded layers and communication.
    """
    return {(row["experiment"], Point.of(row)): row["spread"] for row in tables.fetch(_SPREADS)}


def widest(
    spreads: Mapping[tuple[str, Point], float], experiment: str, base: Point
) -> float | None:
    """Return the spread at the most ranks, with the base's ranks per node; None if unknown."""
    known = {
        point: spread
        for (of, point), spread in spreads.items()
        if of == experiment and point.ranks_per_node == base.ranks_per_node
    }
    return known[max(known)] if known else None


@dataclass(frozen=True)
class Repeats:
    """Throughputs of runs and step times, by size."""

    rates: Mapping[Point, Sequence[float]]
    steps: Mapping[Point, StepTime]

    @classmethod
    def of(
        cls,
        experiment: str,
        runs: Sequence[Measurement],
        steps: Mapping[tuple[str, Point], StepTime],
    ) -> "Repeats":
        """Collect the runs of an experiment that have a throughput."""
        rates: dict[Point, list[float]] = {}
        for run in runs:
            if run.experiment == experiment and run.samples_per_s:
                rates.setdefault(run.point, []).append(run.samples_per_s)
        return cls(rates, {point: step for (of, point), step in steps.items() if of == experiment})

    def step_s(self, point: Point) -> float:
        """Return the geometric mean of the runs' steps in seconds, consistent with throughput."""
        steps_s = self.steps_s(point)
        return geometric_mean(steps_s) if steps_s else self.steps[point].step_s

    def steps_s(self, point: Point) -> list[float]:
        """Return the step of each run, in seconds."""
        if point not in self.steps:
            return []
        samples = point.ranks * (self.steps[point].samples or 0.0)
        return [samples / rate for rate in self.rates.get(point, ())]

    def by_chance(self, base: Point) -> float:
        """Return the half width of Welch's interval of log(step on one node / on two nodes).

        It is infinite if the scatter of runs is unknown.
        """
        alone, both = (self.rates.get(point, ()) for point in (base, two_nodes(base)))
        if not (alone and both):
            return math.inf
        ratio = ratio_estimate(alone, both)
        return math.inf if ratio.high is None else math.log(ratio.high / ratio.mean)

    def scatter(self, base: Point) -> Scatter | None:
        """Return the scatter of runs, over all sizes; None if no size has two runs."""
        calibrated = (base, two_nodes(base))
        known = {point.nodes: self.steps_s(point) for point in calibrated}
        others = [rates for point, rates in self.rates.items() if point not in calibrated]
        return Scatter.of(known, others) if known[1] else None


def two_nodes(base: Point) -> Point:
    """Return the point of two nodes with the base's ranks per node."""
    return Point(2 * base.ranks_per_node, 2, base.ranks_per_node)


Scaling = Literal["strong", "weak"]

# Tolerances: an epoch's last batch may be small, and a batch is divided into whole samples.
_ALIKE = 0.1
_WHOLE = 1.0


def scaling_of_batches(
    samples: Mapping[Point, float], base: Point, asked: Scaling
) -> Scaling | Refused:
    """Return `weak` if a rank's batch is the same at all sizes, `strong` if it is divided.

    If several numbers of ranks were measured, steps decide, not the requested kind: a fixed number of
    samples may be divided among ranks in batches of one size. With one number of ranks, the kind `weak` is
    used, and `strong` is ambiguous.
    """
    of_base = samples[base]
    others = {point: one for point, one in samples.items() if one and point.ranks != base.ranks}
    if not others:
        return "weak" if asked == "weak" else _UNTOLD
    if all(abs(one / of_base - 1) < _ALIKE for one in others.values()):
        return "weak"
    divided = {point: of_base * base.ranks / point.ranks for point in others}
    if all(
        abs(one - divided[point]) <= max(_WHOLE, _ALIKE * divided[point])
        for point, one in others.items()
    ):
        return "strong"
    told = ", ".join(f"{samples[point]:.4g} on {point.ranks}" for point in sorted({base, *others}))
    return Refused(
        "A rank's samples per step neither stay the same nor are divided among the ranks "
        f"({told}), so the batch on more ranks is unknown."
    )


_UNTOLD = Refused(
    "With a single number of ranks, the steps cannot show whether a rank's batch stays the same "
    "on more ranks or is divided; include 2 in the list scale.nodes and run it."
)

# All ranks must have recorded an allreduce, since any of them may be the slowest.
_ALLREDUCES = """
SELECT experiment, bytes, nodes, ranks_per_node, collectives.seconds, run_id AS job
FROM collectives JOIN runs USING (experiment, run_id)
WHERE collectives.name = 'allreduce' AND collectives.ranks = runs.ranks
ORDER BY experiment, runs.ranks, nodes, repeat, bytes, repetition
"""


def allreduce_times(tables: StudyTables) -> Mapping[str, list[AllreduceTime]]:
    """Return single measurements of the slowest rank, by experiment."""
    found: defaultdict[str, list[AllreduceTime]] = defaultdict(list)
    for row in tables.fetch(_ALLREDUCES):
        found[row.pop("experiment")].append(AllreduceTime(**row))
    return dict(found)

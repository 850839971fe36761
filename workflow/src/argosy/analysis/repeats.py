"""The runs of one experiment by their sizes: how long their steps take, and how these scatter."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from argosy.analysis.measurements import Measurement, Point
from argosy.analysis.phases import StepTime
from argosy.analysis.prediction import Scatter
from argosy.analysis.statistics import ratio_estimate


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
        """Take the runs that have a throughput."""
        rates: dict[Point, list[float]] = {}
        for run in runs:
            if run.experiment == experiment and run.samples_per_s:
                rates.setdefault(run.point, []).append(run.samples_per_s)
        return cls(rates, {point: step for (of, point), step in steps.items() if of == experiment})

    def step_s(self, point: Point) -> float:
        """Return the geometric mean of the runs' steps in seconds, as throughput has it."""
        steps_s = self.steps_s(point)
        return geometric_mean(steps_s) if steps_s else self.steps[point].step_s

    def steps_s(self, point: Point) -> list[float]:
        """Return the step of each run, in seconds."""
        if point not in self.steps:
            return []
        samples = point.ranks * (self.steps[point].samples or 0.0)
        return [samples / rate for rate in self.rates.get(point, ())]

    def by_chance(self, base: Point) -> float:
        """Return how far off log(steps on one node / on two) may be: Welch's interval.

        Infinity where the runs do not tell how they scatter, as a single one does not.
        """
        alone, both = (self.rates.get(point, ()) for point in (base, two_nodes(base)))
        if not (alone and both):
            return math.inf
        ratio = ratio_estimate(alone, both)
        return math.inf if ratio.high is None else math.log(ratio.high / ratio.mean)

    def scatter(self, base: Point) -> Scatter | None:
        """Return how runs scatter, by those of all sizes; None where no size has two."""
        calibrated = (base, two_nodes(base))
        known = {point.nodes: self.steps_s(point) for point in calibrated}
        others = [rates for point, rates in self.rates.items() if point not in calibrated]
        return Scatter.of(known, others) if known[1] else None


def two_nodes(base: Point) -> Point:
    """Return two nodes with as many ranks each as one."""
    return Point(2 * base.ranks_per_node, 2, base.ranks_per_node)

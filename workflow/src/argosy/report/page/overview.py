"""An experiment in one row, for the table of many of them."""

from dataclasses import dataclass

from argosy.analysis.statistics import Estimate
from argosy.report.prose import findings as words
from argosy.report.summary.models import ExperimentSummary


@dataclass(frozen=True)
class Overview:
    """The base of an experiment and its largest measured size, None where there is no throughput."""

    base: str | None
    samples_per_s: Estimate | None
    largest: str | None
    """None where the base is the only size."""
    speed_up: Estimate | None
    efficiency: Estimate | None


def overview(experiment: ExperimentSummary) -> Overview:
    """Return what a table of experiments says of one of them."""
    measured = [point for point in experiment.points if point.throughput_samples_per_s]
    if not measured:
        return Overview(None, None, None, None, None)
    base, largest = measured[0], measured[-1]
    rate, name = base.throughput_samples_per_s, words.size(experiment, base)
    if largest is base:
        return Overview(name, rate, None, None, None)
    said = words.size(experiment, largest)
    return Overview(name, rate, said, largest.speed_up, largest.efficiency)

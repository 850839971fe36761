"""Cost of a container: the same runs with and without it, compared."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from argosy.report.numbers import percent, percent_interval
from argosy.report.runs.measurements import Measurement, Point
from argosy.report.runs.scaling import lost_runs, pairs_of, without_interval
from argosy.report.runs.setups import NamedSetup, differences
from argosy.report.sizes import name_among
from argosy.report.statistics.estimates import less_one, paired_ratio_estimate, ratio_estimate
from argosy.report.summary.models import ExperimentSummary
from argosy.report.summary.parts import ContainerCostSummary


def container_costs(
    setups: Mapping[str, NamedSetup], runs: Mapping[str, Sequence[Measurement]]
) -> Mapping[str, list[ContainerCostSummary]]:
    """Return container costs by experiment, for each size measured with and without a container.

    It compares pairs of experiments that differ in the container only.
    """
    return {
        name: [*_costs(other, runs.get(name, ()), runs.get(other, ()))]
        for name, named in setups.items()
        if not named.setup.is_native and (other := _without(named, setups))
    }


def _without(named: NamedSetup, setups: Mapping[str, NamedSetup]) -> str | None:
    """Return the first experiment that is the same without a container."""
    for name, other in setups.items():
        differing = [each.what for each in differences(named.setup, other.setup)]
        if differing == ["runtime"]:
            return name
    return None


def _costs(
    native: str, inside: Sequence[Measurement], without: Sequence[Measurement]
) -> Iterator[ContainerCostSummary]:
    ours, theirs = _by_point(inside), _by_point(without)
    for point in sorted(ours.keys() & theirs.keys()):
        pairs = pairs_of(theirs[point], ours[point])
        # The ratio of step times is the inverse ratio of throughputs.
        ratio = (
            paired_ratio_estimate(*pairs)
            if pairs
            else ratio_estimate(_rates(theirs[point]), _rates(ours[point]))
        )
        if lost_runs(ours[point], theirs[point]):
            ratio = without_interval(ratio)
        yield ContainerCostSummary(
            **point.size, native=native, cost=less_one(ratio), is_paired=bool(pairs)
        )


def _by_point(runs: Sequence[Measurement]) -> dict[Point, list[Measurement]]:
    found: defaultdict[Point, list[Measurement]] = defaultdict(list)
    for run in runs:
        if run.samples_per_s is not None:
            found[run.point].append(run)
    return dict(found)


def _rates(runs: Sequence[Measurement]) -> list[float]:
    return [run.samples_per_s for run in runs if run.samples_per_s is not None]


_DIGITS = 1


def findings(experiment: ExperimentSummary) -> list[str]:
    """Return a sentence for each size measured with and without a container."""
    return [_sentence(experiment, cost) for cost in experiment.container_costs]


def _sentence(experiment: ExperimentSummary, found: ContainerCostSummary) -> str:
    at, cost = name_among(experiment.container_costs, found), found.cost
    said = f"With {at} the container costs {percent(cost.mean, _DIGITS)} of a step's time"
    if cost.low is None or cost.high is None:
        return f"{said}; no interval, since runs are too few, all agree, or some were lost."
    runs = "pairs" if found.is_paired else "runs"
    said += f" ({percent_interval(cost, _DIGITS)}, n = {cost.n} {runs})"
    if cost.low <= 0 <= cost.high:
        return f"{said}, not significantly different from zero."
    return f"{said}."

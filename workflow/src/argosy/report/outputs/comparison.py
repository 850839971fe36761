"""Compare the experiments of several sites, size by size, from their summaries.

Experiments of one name may run different work. A ratio is given only if the work is the same; other
differences are listed.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from argosy.report.numbers import UNIT, count, duration, interval, mean_text, number, percent
from argosy.report.runs.measurements import Point
from argosy.report.runs.scaling import LOST, is_much_lost, without_interval
from argosy.report.runs.setups import Difference, differences
from argosy.report.statistics.estimates import Estimate, ratio_estimate
from argosy.report.statistics.few_runs import detectable_ratio
from argosy.report.summary.models import ExperimentSummary, PointSummary, Summary
from argosy.report.summary.parts import Rates
from argosy.report.topics.history.measure import same_batch
from argosy.report.topics.queue import in_words
from argosy.report.topics.setups import shown

SAME_RUNS = "both have some of the same runs"
_SAME_ACCURACY = 1e-6
"""Accuracies that differ by less count as equal: the limit of single precision."""


@dataclass(frozen=True)
class ComparedPoint:
    """A size at one site.

    Args:
        there: The same size at the first site, if it has a throughput.
        ratio: Throughput relative to the first site; None without one there, or if the work differs.
        detectable: Smallest ratio that such runs show with 80 % power (`statistics.few_runs`).
        no_interval: Reason for a ratio without an interval although there are several runs.
    """

    site: str
    experiment: ExperimentSummary
    point: PointSummary
    there: PointSummary | None
    ratio: Estimate | None = None
    detectable: float | None = None
    no_interval: str | None = None

    @property
    def unit(self) -> str:
        """Unit of throughput, per second."""
        return self.experiment.unit

    def per(self, resource: str) -> float | None:
        """Return the throughput per requested `cpus_per_rank` or `gpus_per_rank`, or per node (`nodes`)."""
        rate, point = self.point.throughput_samples_per_s, self.point
        units = self.experiment.setup.resources.get(resource, 0) * point.ranks
        units = point.nodes if resource == "nodes" else units
        return rate.mean / units if rate and units else None


@dataclass(frozen=True)
class ComparedExperiment:
    """An experiment at the sites that measured it.

    Args:
        points: Ordered by size, smallest first, then by site.
        differences: By site, differences of its setup from the first site's, if both have one.
        left_out: By site, further setups of the experiment, as the site's own report names them.
    """

    experiment: str
    scaling: str
    sites: list[str]
    points: list[ComparedPoint]
    differences: Mapping[str, Sequence[Difference]]
    left_out: Mapping[str, Sequence[str]]

    @property
    def units(self) -> str:
        """Units of throughput of all sites, joined by `or`."""
        return " or ".join(dict.fromkeys(each.unit for each in self.points)) or UNIT


@dataclass(frozen=True)
class Comparison:
    """Measurements of several sites; the first of `sites` is the reference."""

    sites: list[str]
    rates: Mapping[str, Rates]
    experiments: list[ComparedExperiment]
    inputs: Mapping[str, str | None]
    """Digest of each site's inputs (`runs.setups`)."""

    @property
    def has_same_inputs(self) -> bool:
        """Whether all sites are known to have the same inputs."""
        return len({*self.inputs.values()}) == 1 and None not in self.inputs.values()


def compare(summaries: Mapping[str, Summary]) -> Comparison:
    """Compare summaries, given by the sites' names, the reference first."""
    sites = [*summaries]
    names = dict.fromkeys(
        each.asked_experiment for summary in summaries.values() for each in summary.experiments
    )
    return Comparison(
        sites=sites,
        rates={site: summary.rates for site, summary in summaries.items()},
        experiments=[_compared(name, summaries, sites[0]) for name in names],
        inputs={site: summary.inputs for site, summary in summaries.items()},
    )


def _compared(name: str, summaries: Mapping[str, Summary], reference: str) -> ComparedExperiment:
    setups = {
        site: [each for each in summary.experiments if each.asked_experiment == name]
        for site, summary in summaries.items()
    }
    there = setups[reference]
    of_site = {site: _nearest(several, there) for site, several in setups.items() if several}
    measured = {site: _measured(each) for site, each in of_site.items()}
    apart = {
        site: differences(of_site[reference].setup, each.setup)
        for site, each in of_site.items()
        if there and site != reference
    }
    refused = {site for site, found in apart.items() if any(one.is_of_work for one in found)}
    base = measured.get(reference, {})
    lost = {
        site: {one.point for one in each.sizes if is_much_lost(one.states)}
        for site, each in of_site.items()
    }
    runs = {site: _measured_runs(summaries[site], each) for site, each in of_site.items()}

    def no_interval(site: str, size: Point) -> str | None:
        if runs[site][size] & runs.get(reference, {}).get(size, set()):
            return SAME_RUNS
        return LOST if size in lost[site] | lost.get(reference, set()) else None

    sizes = sorted({size for points in measured.values() for size in points})
    return ComparedExperiment(
        experiment=name,
        scaling=next(iter(of_site.values())).scaling,
        sites=[site for site in of_site if measured[site]],
        points=[
            each if site in (reference, *refused) else _with_ratio(each, no_interval(site, size))
            for size in sizes
            for site, points in measured.items()
            if size in points
            for each in [ComparedPoint(site, of_site[site], points[size], base.get(size))]
        ],
        differences=apart,
        left_out={
            site: [each.experiment for each in several if each is not of_site[site]]
            for site, several in setups.items()
            if len(several) > 1
        },
    )


def _nearest(
    several: Sequence[ExperimentSummary], reference: Sequence[ExperimentSummary]
) -> ExperimentSummary:
    """Return the setup with the fewest differences from the reference's last; the last without one."""
    if not reference:
        return several[-1]

    def distance(each: ExperimentSummary) -> tuple[int, int]:
        apart = differences(reference[-1].setup, each.setup)
        return sum(one.is_of_work for one in apart), len(apart)

    return min(reversed(several), key=distance)


def _measured(experiment: ExperimentSummary) -> dict[Point, PointSummary]:
    return {one.point: one for one in experiment.points if one.throughput_samples_per_s}


def _measured_runs(summary: Summary, experiment: ExperimentSummary) -> dict[Point, set[Hashable]]:
    """Return what identifies the runs of each size: copied results or a later report may have them too."""
    found: defaultdict[Point, set[Hashable]] = defaultdict(set)
    for run in summary.runs:
        if run.counts_to == experiment.experiment and run.samples_per_s is not None:
            key = (run.run_id, run.attempt, run.started_unix_s, run.samples_per_s)
            found[run.point].add(key)
    return found


def _with_ratio(each: ComparedPoint, no_interval: str | None) -> ComparedPoint:
    if each.there is None or not _same_batch(each.point, each.there):
        return each
    runs = each.point.runs_samples_per_s, each.there.runs_samples_per_s
    ratio = ratio_estimate(*runs)
    if no_interval:
        return replace(each, ratio=without_interval(ratio), no_interval=no_interval)
    return replace(each, ratio=ratio, detectable=detectable_ratio(*runs))


def _same_batch(point: PointSummary, reference: PointSummary) -> bool:
    """Check that a rank's batch is the same; True if steps are missing."""
    return same_batch(point.samples_per_step, reference.samples_per_step)


def findings(experiment: ComparedExperiment, reference: str) -> Sequence[str]:
    """Compare each site with the reference at their largest common size, in sentences."""
    others = [site for site in experiment.sites if site != reference]
    aside = [
        f"{site} also has {', '.join(names)}, with other setups: see its own report."
        for site, names in experiment.left_out.items()
    ]
    if reference not in experiment.sites or not others:
        if not experiment.sites:
            return ["No throughput was measured at any site.", *aside]
        return [f"Measured at {', '.join(experiment.sites)} only.", *aside]
    said = (_of_site(experiment, site, reference) for site in others)
    return [*(sentence for sentences in said for sentence in sentences), *aside]


def _of_site(experiment: ComparedExperiment, site: str, reference: str) -> list[str]:
    apart = experiment.differences[site]
    work = [one for one in apart if one.is_of_work]
    rest = [one for one in apart if not one.is_of_work]
    if work:
        said = [
            f"{site} and {reference} did different work, so no ratio is given: "
            f"{_listed(work, site, reference)}."
        ]
    else:
        said = [
            _finding(experiment, site, reference),
            *_accuracies(experiment, site, reference),
            *_waits(experiment, site, reference),
        ]
    if rest:
        said.append(f"Other differences: {_listed(rest, site, reference)}.")
    return said


def _listed(apart: Sequence[Difference], site: str, reference: str) -> str:
    return "; ".join(
        f"{one.what}: {shown(one.other)} at {site}, {shown(one.one)} at {reference}"
        for one in apart
    )


def _finding(experiment: ComparedExperiment, site: str, reference: str) -> str:
    shared = [each for each in experiment.points if each.site == site and each.ratio]
    if not shared:
        return _nothing_shared(experiment, site, reference)
    largest = shared[-1]
    assert largest.ratio
    ratio, nodes = largest.ratio, largest.point.nodes
    within = "no interval: a site has one run, or all agree to the last digit"
    if largest.no_interval:
        within = f"no interval: {largest.no_interval}"
    if ratio.low is not None and ratio.high is not None:
        within = interval(ratio)
    width = largest.point.ranks_per_node
    where = f"{count(nodes, 'node')} with {count(width, 'rank')} each"
    there, steps = largest.there, ""
    if there and there.steps != largest.point.steps and there.steps and largest.point.steps:
        here = f"{largest.point.steps:,.0f} steps at {site}"
        steps = f" A run made {here}, {there.steps:,.0f} at {reference}."
    seen = ""
    if largest.detectable is not None:
        seen = (
            f" This comparison can detect differences of {percent(largest.detectable - 1)} or more (80 % "
            "power)."
        )
    return (
        f"On {where}, {site} has {mean_text(ratio)} times the throughput of {reference} ({within})."
        f"{seen}{steps}"
    )


def _waits(experiment: ComparedExperiment, site: str, reference: str) -> Iterator[str]:
    """Yield a sentence on queue waits at the largest common size with known waits."""
    for each in reversed(experiment.points):
        there = each.there
        if each.site == site and there and each.point.queue and there.queue:
            here, other = each.point.queue.to_result_s, there.queue.to_result_s
            yield (
                f"From submission to end, a run on {count(each.point.nodes, 'node')} took "
                f"{duration(here)} at {site}: it {in_words(each.point)}. At {reference} it took "
                f"{duration(other)}, and {in_words(there)}. Queue times vary from day to day."
            )
            return


def _accuracies(experiment: ComparedExperiment, site: str, reference: str) -> Iterator[str]:
    """Yield a sentence that compares test accuracies, and steps, over all common sizes."""
    known = [
        (here, there, here.test_accuracy.mean, there.test_accuracy.mean)
        for each in experiment.points
        for here, there in [(each.point, each.there)]
        if each.site == site and there and here.test_accuracy and there.test_accuracy
    ]
    if not known:
        return
    apart = [each for each in known if abs(each[2] - each[3]) > _SAME_ACCURACY]
    if apart:
        point, _, here, other = apart[-1]
        yield (
            f"Models trained on {count(point.nodes, 'node')} have a test accuracy of {here:.4f} at {site}, "
            f"{other:.4f} at {reference}."
        )
        return
    steps = " in as many steps" if all(a.steps == b.steps for a, b, *_ in known) else ""
    yield (
        f"At each common size, models reach the same test accuracy{steps}, within single precision."
    )


def _nothing_shared(experiment: ComparedExperiment, site: str, reference: str) -> str:
    for each in experiment.points:
        there = each.there
        if each.site == site and there and not _same_batch(each.point, there):
            here, other = each.point.samples_per_step or 0, there.samples_per_step or 0
            return (
                f"{site} and {reference} did different work, so no ratio is given: a rank's step has "
                f"{number(here)} samples at {site}, {number(other)} at {reference}."
            )
    return f"{site} and {reference} have no measured size in common."

"""The same experiments at several sites, size by size, from their summaries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from argosy.analysis.statistics import Estimate, ratio_estimate
from argosy.report.costs import Rates
from argosy.report.models import ExperimentSummary, PointSummary, Summary
from argosy.report.numbers import count

Size = tuple[int, int]
"""Nodes, and ranks on each."""


@dataclass(frozen=True)
class ComparedPoint:
    """A size at one site; `ratio` is its throughput over the first site's, None where that has none."""

    site: str
    point: PointSummary
    ratio: Estimate | None


@dataclass(frozen=True)
class ComparedExperiment:
    """An experiment at the sites that measured it; its points by size, smallest first, then by site."""

    experiment: str
    scaling: str
    sites: list[str]
    points: list[ComparedPoint]


@dataclass(frozen=True)
class Comparison:
    """What several sites measured. Others are held against the first of `sites`."""

    sites: list[str]
    rates: Mapping[str, Rates]
    experiments: list[ComparedExperiment]


def compare(summaries: Mapping[str, Summary]) -> Comparison:
    """Compare the summaries, by the names that sites are to have, the reference first."""
    sites = [*summaries]
    names = dict.fromkeys(
        each.experiment for summary in summaries.values() for each in summary.experiments
    )
    return Comparison(
        sites=sites,
        rates={site: summary.rates for site, summary in summaries.items()},
        experiments=[_compared(name, summaries, sites[0]) for name in names],
    )


def _compared(name: str, summaries: Mapping[str, Summary], reference: str) -> ComparedExperiment:
    of_site = {
        site: each
        for site, summary in summaries.items()
        for each in summary.experiments
        if each.experiment == name
    }
    measured = {site: _measured(each) for site, each in of_site.items()}
    there = measured.get(reference, {})
    sizes = sorted({size for points in measured.values() for size in points})
    return ComparedExperiment(
        experiment=name,
        scaling=next(iter(of_site.values())).scaling,
        sites=[site for site in of_site if measured[site]],
        points=[
            ComparedPoint(site, points[size], _ratio(points[size], there.get(size)))
            for size in sizes
            for site, points in measured.items()
            if size in points
        ],
    )


def _measured(experiment: ExperimentSummary) -> dict[Size, PointSummary]:
    return {
        (point.nodes, point.ranks_per_node): point
        for point in experiment.points
        if point.throughput_samples_per_s
    }


def _ratio(point: PointSummary, reference: PointSummary | None) -> Estimate | None:
    if reference is None or reference is point:
        return None
    return ratio_estimate(point.runs_samples_per_s, reference.runs_samples_per_s)


def findings(experiment: ComparedExperiment, reference: str) -> Sequence[str]:
    """How the sites compare at the largest size that each of them shares with the first."""
    others = [site for site in experiment.sites if site != reference]
    if reference not in experiment.sites or not others:
        alone = f"{', '.join(experiment.sites)} alone" if experiment.sites else "no site"
        return [f"Measured at {alone}."]
    return [_finding(experiment, site, reference) for site in others]


def _finding(experiment: ComparedExperiment, site: str, reference: str) -> str:
    shared = [each for each in experiment.points if each.site == site and each.ratio]
    if not shared:
        return f"{site} and {reference} measured no size alike."
    largest = shared[-1]
    assert largest.ratio
    ratio, nodes = largest.ratio, largest.point.nodes
    within = "one run at a site, so no interval"
    if ratio.low is not None and ratio.high is not None:
        within = f"{ratio.low:.2f} to {ratio.high:.2f}"
    width = largest.point.ranks_per_node
    where = f"{count(nodes, 'node')} with {count(width, 'rank')} each"
    return (
        f"On {where}, {site} has {ratio.mean:.2f} times the throughput of {reference} ({within})."
    )

"""How the numbers of a report were made: the methods that applied to this study, and no others."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence

from argosy.report.numbers import count, percent
from argosy.report.runs.scaling import FEWEST_PAIRS, are_blocks
from argosy.report.sizes import listed
from argosy.report.statistics.few_runs import unseen_share
from argosy.report.summary.models import (
    ExperimentSummary,
    PointSummary,
    ProvenanceSummary,
    RunSummary,
    Summary,
)
from argosy.report.summary.parts import Rates
from argosy.report.topics.runs import warm_up


def methods(summary: Summary) -> list[str]:
    """Return a sentence or two for each method that made a number of the report, in the page's order."""
    return [*_of_runs(summary), *_of_means(summary), *_of_parts(summary), *_bases(summary)]


def _of_runs(summary: Summary) -> Iterator[str]:
    runs = summary.runs
    by_steps = sum(run.throughput_source == "steps" for run in runs)
    printed = sum(run.throughput_source == "printed" for run in runs)
    if by_steps:
        yield (
            "A run's throughput is the samples of all its ranks over the time of its slowest rank: the sum "
            "of that rank's steps, once the run is steady."
        )
    if any(run.warm_up_steps is not None for run in runs):
        yield warm_up(summary)
    if printed:
        yield (
            f"The programs of {count(printed, 'run')} recorded no steps. Their throughput is the mean of "
            "the numbers that they printed, each weighted by the work that it stands for."
        )
    apart = [each.experiment for each in summary.experiments if each.setup.independent]
    if apart:
        yield (
            f"The ranks of {listed(apart)} are independent of each other, as the experiment says: nothing "
            "was exchanged, and their samples are added up."
        )
    missing = sum((run.left_out or "").startswith("no steps of ") for run in runs)
    if missing:
        yield f"Left out, since records of their ranks are missing: {count(missing, 'run')}."
    seeds = sorted({one for entry in summary.provenance if (one := _seed(entry)) is not None})
    if seeds and max((run.repeat for run in runs), default=1) > 1:
        yield (
            "Runs were submitted repeat by repeat, all sizes and experiments of a repeat in random order "
            f"(seed {', '.join(map(str, seeds))}), so that busy hours affect all sizes alike. "
            f"{_started(runs)}"
        )
    unwatched = [
        each.experiment
        for each in summary.experiments
        if each.setup.is_native and not each.setup.programs
    ]
    if unwatched:
        yield (
            f"No file of the program of {', '.join(unwatched)} is watched: where the program has changed, "
            "the experiment is not measured again by itself."
        )
    slow = sum(bool(run.stragglers) for run in runs)
    if slow:
        yield (
            "Ranks are compared in their own work, all phases but communication, since the others show a "
            f"slow rank's delay as communication. Slow ranks were found in {count(slow, 'run')}."
        )


def _started(runs: Sequence[RunSummary]) -> str:
    """Return whether they started as they were submitted, by their times."""
    starts: defaultdict[int, list[float | None]] = defaultdict(list)
    for run in runs:
        if run.samples_per_s is not None:
            starts[run.repeat].append(run.started_unix_s)
    if len(starts) < 2:
        return "Only one repeat has throughputs."
    if are_blocks(starts):
        return "They started in that order."
    return (
        "They did not start in that order: runs of different repeats started among each other, as when "
        "jobs wait or are repeated."
    )


def _shared_jobs(summary: Summary) -> int:
    """Return how many jobs measured several runs, of those runs that asked to share one."""
    asked = {run for entry in summary.provenance if _asks_to_share(entry) for run in entry.runs}
    jobs = Counter(
        run.attempt.rpartition(".")[0]
        for run in summary.runs
        if run.attempt and f"{run.experiment}/{run.run_id}" in asked
    )
    return sum(held > 1 for held in jobs.values())


def _asks_to_share(entry: ProvenanceSummary) -> bool:
    experiment = entry.content.get("experiment")
    resources = experiment.get("resources") if isinstance(experiment, dict) else None
    return isinstance(resources, dict) and resources.get("same_allocation") is True


def _seed(entry: ProvenanceSummary) -> int | None:
    submission = entry.content.get("submission")
    seed = submission.get("seed") if isinstance(submission, dict) else None
    return seed if isinstance(seed, int) else None


def _of_means(summary: Summary) -> Iterator[str]:
    measured = [one for one in _points(summary) if one.throughput_samples_per_s]
    if not measured:
        return
    shared = _shared_jobs(summary)
    n = "the number of runs" if shared else "the number of independent jobs"
    yield f"n is {n}. Steps within a job are not independent of each other and give no interval."
    if shared:
        yield (
            f"{count(shared, 'job')} held several runs each, one after another on the same nodes "
            "(resources.same_allocation). Nodes that waited while a smaller size ran are in no cost."
        )
    several = sum(len(one.runs_samples_per_s) > 1 for one in measured)
    alone = len(measured) - several
    if several:
        yield (
            "Means of throughputs are geometric, with Student's t interval of "
            f"{percent(summary.method.confidence)} confidence on the logarithm."
        )
    if alone:
        yield (
            f"{count(alone, 'size')} had a single run, which shows no scatter: no interval is given."
        )
    most = max(len(one.runs_samples_per_s) for one in measured)
    if most > 1:
        yield (
            f"With {count(most, 'run')} per size you can miss slow jobs: even if "
            f"{percent(unseen_share(most))} of all jobs were slow, 1 study in 20 would see none."
        )
    if any(one.costs for one in measured):
        yield (
            "Hours and node-hours of a million samples are those of steps in the steady state. Charged "
            "ones are of one job, with its start, warm-up, validation and checkpoints; so is the price "
            "where they are known. Their means, and those of energy, are arithmetic, since bills add up."
        )
        yield from _of_rates(summary.rates)
    compared = [one.speed_up for one in measured if one.speed_up]
    if len(compared) > 1:
        yield (
            "Speed-up is the mean throughput over that of the base; efficiency is the speed-up over the "
            "growth in ranks. Both are 1 at the base by definition."
        )
    yield from _of_speed_ups([one for one in measured if one.detectable_ratio is not None])
    others = sum(
        max(0, sum(point.speed_up is not None for point in one.points) - 1)
        for one in summary.experiments
    )
    if others > 1:
        yield (
            f"Each interval holds by itself: all {others} of the speed-ups hold together less often than "
            "one. What is said of the largest loss holds together with all factors (Bonferroni)."
        )


def _of_speed_ups(scattering: Sequence[PointSummary]) -> Iterator[str]:
    """Yield what intervals are made by, of sizes that have one which is not a point."""
    paired = sum(one.speed_up_is_paired for one in scattering)
    if paired < len(scattering):
        which = f" of {count(len(scattering) - paired, 'size')}" if paired else ""
        yield f"The interval of a speed-up{which} is Welch's on the logarithm."
    if paired:
        which = "" if paired == len(scattering) else f" of {count(paired, 'size')}"
        yield (
            f"The interval of a speed-up{which} pairs the runs of each repeat, on the logarithm of "
            f"their ratio: {FEWEST_PAIRS} repeats or more were blocks in time, by the starts of their runs."
        )
    if scattering:
        yield (
            "The detectable difference is the smallest one that such runs show in 80 % of studies (80 % "
            "power); smaller ones may exist unseen."
        )


def _of_rates(rates: Rates) -> Iterator[str]:
    """Yield by what prices, energy and carbon are calculated."""
    if rates.price_per_node_hour is not None:
        yield f"A node-hour is taken at {rates.price_per_node_hour} {rates.currency}."
    pue = f", times the site's PUE of {rates.pue}" if rates.pue else ""
    yield f"Energy per million samples is that of processors and GPUs{pue}."
    if rates.carbon_g_per_kwh is not None:
        yield f"Carbon is taken at {rates.carbon_g_per_kwh} g of CO₂ per kWh."
    if rates.source:
        yield f"Rates: {rates.source}."


def _of_parts(summary: Summary) -> Iterator[str]:
    points = [*_points(summary)]
    if any(one.phases_s_per_step for one in points):
        yield (
            "Times of phases are means over steps, then ranks, then runs, so that each weighs the same. "
            "Time between steps, as of validation and checkpoints, is in no step and no throughput."
        )
    if any(one.factors for one in points):
        yield (
            "Factors are relative to the base, and geometric means over runs: their product is the "
            "efficiency, exactly."
        )
    for applies, said in _WHOLE:
        if any(applies(experiment) for experiment in summary.experiments):
            yield said
    if any(one.usage for one in points):
        yield (
            "Telemetry measures resource usage from the agents' start to their end; energy is that of the "
            "whole job, where all of a run's could be read; energy per sample is the power within the "
            "steady state over the throughput there."
        )


_WHOLE: tuple[tuple[Callable[[ExperimentSummary], object], str], ...] = (
    (
        lambda one: one.base and one.scaling == "strong",
        "Strong scaling: the problem stays the same and is divided among the ranks.",
    ),
    (
        lambda one: one.base and one.scaling == "weak",
        "Weak scaling: the problem grows with the ranks.",
    ),
    (
        lambda one: one.allreduces,
        "The time of an allreduce alone is that of its slowest rank: the mean over runs, each with the "
        "mean of its repetitions. busbw is its bytes over that time, times 2 (n - 1) / n for n ranks.",
    ),
    (
        lambda one: any(law.refused is None for law in one.laws),
        "Laws are fitted to single runs by least squares on the logarithm. The simplest that misses the "
        "sizes' means by no more than repeats scatter is named, where there are repeats enough: the runs "
        "do not contradict it, as they may not contradict others. Where the means scatter by more than "
        "the repeats tell, the intervals are by the means.",
    ),
    (
        lambda one: one.prediction and one.prediction.method == "network",
        "Sizes that nobody ran are predicted from the measured steps, the layers' times and the network's "
        "delay and rate.",
    ),
    (
        lambda one: one.prediction and one.prediction.method == "universal law",
        "Sizes up to twice the largest are extrapolated by the universal scalability law, from throughputs "
        "alone.",
    ),
    (
        lambda one: any(found.refused is None for found in one.stalls),
        "A stall is the difference of two sets of runs, one of which has less to wait for: "
        "one rank alone with synthetic data computes; all ranks of a node also wait for each other; more "
        "nodes for the network; runs with data for these. Where ranks wait for each other and for data at "
        "the same time, what goes last hides the other.",
    ),
    (
        lambda one: one.timelines,
        "Parts of Horovod's timeline, as rank 0 wrote it, overlap and do not add up; how much of them the "
        "backward pass hides is not known. Negotiation is waiting for the slowest rank. Writing a timeline "
        "takes time, so its runs are for looking.",
    ),
)


def _bases(summary: Summary) -> Iterator[str]:
    for experiment in summary.experiments:
        base = experiment.base
        if base is not None:
            yield (
                f"Base of {experiment.experiment}, its size with the fewest ranks: "
                f"{count(base.nodes, 'node')}, {count(base.ranks, 'rank')}."
            )


def _points(summary: Summary) -> Iterator[PointSummary]:
    for experiment in summary.experiments:
        yield from experiment.points

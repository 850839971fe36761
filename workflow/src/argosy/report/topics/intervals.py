"""Methods of means, speed-ups and their intervals, for the report's list of methods."""

from collections import Counter
from collections.abc import Iterator, Sequence

from argosy.report.numbers import count, percent
from argosy.report.runs.scaling import FEWEST_PAIRS
from argosy.report.statistics.few_runs import unseen_share
from argosy.report.summary.models import PointSummary, ProvenanceSummary, Summary


def of_means(summary: Summary) -> Iterator[str]:
    """Describe n, means, and the slow jobs that few runs may miss."""
    measured = _measured(summary)
    if not measured:
        return
    shared = _shared_jobs(summary)
    n = "the number of runs" if shared else "the number of independent jobs"
    yield f"n is {n}. Steps within a job are not independent of each other and give no interval."
    if shared:
        yield (
            f"{count(shared, 'job')} contained several runs each, one after another on the same "
            "nodes (resources.same_allocation). Costs exclude nodes that waited while a smaller "
            "size ran."
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
    fewest, most = min(ns := [len(one.runs_samples_per_s) for one in measured]), max(ns)
    if most > 1:
        share = percent(unseen_share(most))
        runs_each = count(most, "run")
        if fewest < most:
            share = f"{share} (of the size with {runs_each}) to {percent(unseen_share(fewest))}"
            runs_each = f"{fewest} to {runs_each}"
        yield (
            f"With {runs_each} per size you can miss slow jobs: even if {share} of all jobs were slow, "
            "1 study in 20 would see none."
        )


def _shared_jobs(summary: Summary) -> int:
    """Count the jobs with several runs, among runs with `resources.same_allocation`."""
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


def of_speed_ups(summary: Summary) -> Iterator[str]:
    """Describe speed-ups, efficiencies and their intervals."""
    measured = _measured(summary)
    compared = [one.speed_up for one in measured if one.speed_up]
    if len(compared) > 1:
        yield (
            "Speed-up is the mean throughput divided by the base's; efficiency is the speed-up "
            "divided by the growth in ranks. Both are 1 at the base by definition."
        )
    yield from _of_intervals([one for one in measured if one.detectable_ratio is not None])
    others = sum(
        max(0, sum(point.speed_up is not None for point in one.points) - 1)
        for one in summary.experiments
    )
    if others > 1:
        yield (
            f"Each interval is valid by itself. The joint coverage of all {others} speed-up "
            "intervals is lower. The statement on the largest loss holds for all factors "
            "together (Bonferroni)."
        )


def _of_intervals(scattering: Sequence[PointSummary]) -> Iterator[str]:
    """Describe the intervals of sizes whose runs scatter."""
    paired = sum(one.speed_up_is_paired for one in scattering)
    if paired < len(scattering):
        which = f" of {count(len(scattering) - paired, 'size')}" if paired else ""
        yield f"The interval of a speed-up{which} is Welch's on the logarithm."
    if paired:
        which = "" if paired == len(scattering) else f" of {count(paired, 'size')}"
        yield (
            f"The interval of a speed-up{which} pairs the runs of each repeat, on the logarithm "
            f"of their ratio, since at least {FEWEST_PAIRS} repeats were blocks in time."
        )
    if scattering:
        yield (
            "The detectable difference is the smallest difference that such runs show in 80 % of "
            "studies (80 % power); smaller differences may go unnoticed."
        )


def of_scaling(summary: Summary) -> Iterator[str]:
    """Define strong and weak scaling, if the study has such experiments."""
    kinds = {one.scaling for one in summary.experiments if one.base}
    if "strong" in kinds:
        yield "Strong scaling: the problem stays the same and is divided among the ranks."
    if "weak" in kinds:
        yield "Weak scaling: the problem grows with the ranks."


def of_bases(summary: Summary) -> Iterator[str]:
    """Name the base of each experiment."""
    for experiment in summary.experiments:
        base = experiment.base
        if base is not None:
            yield (
                f"Base of {experiment.experiment}, its size with the fewest ranks: "
                f"{count(base.nodes, 'node')}, {count(base.ranks, 'rank')}."
            )


def _measured(summary: Summary) -> list[PointSummary]:
    return [one for one in summary.points if one.throughput_samples_per_s]

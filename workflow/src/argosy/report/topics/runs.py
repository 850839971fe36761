"""Sentences on single runs: failures, exclusions, warm-up and remarks."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median

from argosy.report.numbers import count, duration, interval, mean_text, number, percent
from argosy.report.runs.measurements import ALLREDUCES_ALONE
from argosy.report.runs.scaling import are_blocks
from argosy.report.runs.stragglers import Straggler
from argosy.report.sizes import listed, not_completed
from argosy.report.summary.models import (
    ExperimentSummary,
    ProvenanceSummary,
    RunSummary,
    Summary,
)
from argosy.report.topics import doubts, slowness
from argosy.report.topics.costs import MUCH_BETWEEN_STEPS

CLOCKS_AGREE_S = 1.0
"""Difference of ends of a step, in s, above which nodes' clocks must differ."""

MOST_NAMED = 4
"""Maximum number of runs listed by name; more are counted."""


def left_out(summary: Summary, experiment: ExperimentSummary) -> list[str]:
    """Return a sentence for each cause of excluding completed runs."""
    by_cause: dict[str, list[str]] = {}
    for run in summary.runs:
        is_its = run.counts_to == experiment.experiment
        if is_its and run.state == "completed" and run.left_out not in (None, ALLREDUCES_ALONE):
            by_cause.setdefault(str(run.left_out), []).append(run.run_id)
    return [
        f"Excluded, though completed: {runs_named(runs)}: {cause}."
        for cause, runs in by_cause.items()
    ]


def runs_named(runs: Sequence[str]) -> str:
    return listed(runs) if len(runs) <= MOST_NAMED else count(len(runs), "run")


def remarks(run: RunSummary) -> list[str]:
    """Return sentences on doubts and oddities of a run."""
    found = (
        (run.unreadable_records, "Records that could not be read: {:,}."),
        (run.duplicate_steps, "Steps recorded twice (the first counts): {:,}."),
        (run.missing_steps, "Steps that only some of the ranks recorded: {:,}."),
        (run.repeated_steps, "Steps done again after an interruption, counted once: {:,}."),
    )
    said = [text.format(amount) for amount, text in found if amount]
    if run.restarts:
        said.insert(0, _restarts(run))
    if run.counted_as:
        said.insert(0, f"It belongs to {run.counted_as}.")
    if run.is_far_off:
        said.insert(0, "Its throughput is far from the other repeats; it is included.")
    if run.is_slow:
        hosts = sorted({host for host in run.hosts if host})
        where = f" It ran on {listed(hosts)}." if hosts else ""
        said.insert(0, f"It is one of the slow jobs of its size; it is included.{where}")
    if run.slower_from is not None:
        said.insert(0, slowness.remark(run))
    elif run.is_steady is False and not run.left_out:
        said.insert(
            0,
            f"Excluded: the first {count(run.warm_up_steps or 0, _counted(run))}; {run.warm_up}.",
        )
    if run.warm_up_excess is not None and run.warm_up_excess > 1:
        said.insert(
            0,
            f"Its throughput is {percent(run.warm_up_excess - 1)} above the throughput of the "
            f"{_counted(run)}s that count: {run.warm_up}.",
        )
    if run.between_steps is not None and run.between_steps > MUCH_BETWEEN_STEPS:
        said.append(
            f"{percent(run.between_steps)} of its steady time is between steps, for example "
            "validation and checkpoints; the throughput excludes this time."
        )
    said += doubts.remarks(run)
    said += [_straggler(run, one) for one in run.stragglers]
    spread = run.clock_spread_s
    if spread is not None and spread > CLOCKS_AGREE_S:
        said.append(f"Its nodes' clocks differ by {duration(spread)}.")
    return said


def _restarts(run: RunSummary) -> str:
    """Describe a run's restarts, their lost time and their nodes."""
    parts = listed([str(nodes) for nodes in run.part_nodes])
    return (
        f"It restarted within its job after losing a rank or node: {count(run.restarts, 'restart')}, "
        f"{duration(run.restarts_lost_s or 0.0)} from the last checkpoints to the restarts; nodes of its "
        f"parts: {parts}."
    )


def _counted(run: RunSummary) -> str:
    """Return the unit of a run's warm-up: print or step."""
    return "print" if run.throughput_source == "printed" else "step"


def _straggler(run: RunSummary, slow: Straggler) -> str:
    host = dict(enumerate(run.hosts)).get(slow.node) or "unknown host"
    who = f"Node {slow.node}" if slow.rank is None else f"Rank {slow.rank} on node {slow.node}"
    return (
        f"{who} ({host}) is slow: its own work takes {mean_text(slow.ratio)} times "
        f"({interval(slow.ratio)}) as long as on the other ranks; {percent(slow.share)} of its "
        "steps are slow."
    )


def warm_up(summary: Summary) -> str:
    """Describe the rule for warm-up, and how much it excluded."""
    runs = [run for run in summary.runs if run.warm_up_steps is not None]
    counted = {_counted(run) for run in runs}
    source = " or ".join(f"{noun}s" for noun in ("step", "print") if noun in counted)
    said = [
        f"Warm-up ends at the last significant drop of a run's {source.replace(' or ', ' and ')} "
        "in mean log time; afterwards they become no faster."
    ]
    for noun in ("step", "print"):
        found = sorted(run.warm_up_steps or 0 for run in runs if _counted(run) == noun)
        if found:
            most = count(found[-1], noun)
            said.append(
                f"Excluded from each run: {most if found[0] == found[-1] else f'{found[0]} to {most}'}."
            )
    fitted = sum((run.warm_up_excess or 1) > 1 for run in runs)
    if fitted:
        said.append(
            f"The steady state of {count(fitted, 'run')} is the limit of an exponential, fitted to all "
            "their steps."
        )
    unknown = [run for run in summary.runs if run.is_steady is False and run.slower_from is None]
    never = sum(run.left_out == run.warm_up for run in unknown)
    if never:
        said.append(f"Excluded, since they have no steady state: {count(never, 'run')}.")
    if len(unknown) > never:
        said.append(f"Too few {source} to judge: {count(len(unknown) - never, 'run')}.")
    return " ".join(said)


_ENDED_BADLY = ("failed", "interrupted", "cancelled", "unfinished")


def failures(summary: Summary, experiment: ExperimentSummary) -> Iterator[str]:
    """Yield a sentence for each size with failed runs, with their number and causes."""
    causes_of = {(one.experiment, one.run_id): one.cause for one in summary.failures}
    for one in experiment.sizes:
        causes = [
            # Each run has a log of its own, which the list of failures links to.
            causes_of.get((run.experiment, run.run_id), run.state)
            .partition("; see logs/")[0]
            .rstrip(".")
            for run in _runs_of(summary, experiment)
            if run.point == one.point and run.state in _ENDED_BADLY
        ]
        if said := not_completed(experiment, one, causes):
            yield said


def not_steady(summary: Summary, experiment: ExperimentSummary) -> Iterator[str]:
    """Yield a sentence for each reason why steadiness of counted runs is not confirmed."""
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for run in _runs_of(summary, experiment):
        if run.is_steady is False and run.samples_per_s is not None and run.slower_from is None:
            by_reason[run.warm_up or "not steady"].append(run.run_id)
    for reason, runs in by_reason.items():
        yield f"Included, though steadiness was not shown: {runs_named(runs)}: {reason}."


_FAR = 1.1
"""Runs that differ by less from the others change no mean by much."""


def far_off(summary: Summary, experiment: ExperimentSummary) -> Iterator[str]:
    """Yield a sentence for each run that is far off the other repeats of its size, and in its mean."""
    for run in _runs_of(summary, experiment):
        others = [
            one.samples_per_s
            for one in _runs_of(summary, experiment)
            if one is not run and one.samples_per_s and one.point == run.point
        ]
        if not (run.is_far_off and run.samples_per_s and others):
            continue
        ratio = run.samples_per_s / median(others)
        if max(ratio, 1 / ratio) > _FAR:
            yield (
                f"{run.run_id}: its throughput is {number(ratio)} times the median of the other "
                f"{count(len(others), 'run')} of its size; it is included."
            )


def _runs_of(summary: Summary, experiment: ExperimentSummary) -> list[RunSummary]:
    return [run for run in summary.runs if run.counts_to == experiment.experiment]


def methods(summary: Summary) -> Iterator[str]:
    """Describe how throughputs were computed, and which runs are excluded."""
    runs = summary.runs
    by_steps = sum(run.throughput_source == "steps" for run in runs)
    printed = sum(run.throughput_source == "printed" for run in runs)
    if by_steps:
        yield (
            "A run's throughput is the samples of all its ranks divided by the slowest rank's "
            "time. That time is the sum of the rank's steps in the steady state."
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
            f"The ranks of {listed(apart)} are independent of each other, as configured. They "
            "exchanged nothing, and their samples are added up."
        )
    missing = sum((run.left_out or "").startswith("no steps of ") for run in runs)
    if missing:
        yield f"Excluded, since records of their ranks are missing: {count(missing, 'run')}."
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
        if each.setup.is_native and all(name.startswith("data ") for name in each.setup.programs)
    ]
    if unwatched:
        yield (
            f"Argosy watches no program file of {', '.join(unwatched)}: if the program changes, "
            "the experiment is not measured again automatically."
        )


def _started(runs: Sequence[RunSummary]) -> str:
    """Describe whether runs started in the order of submission."""
    starts: defaultdict[int, list[float | None]] = defaultdict(list)
    for run in runs:
        if run.samples_per_s is not None:
            starts[run.repeat].append(run.started_unix_s)
    if len(starts) < 2:
        return "Only one repeat has throughputs."
    if are_blocks(starts):
        return "They started in that order."
    return (
        "They did not start in that order: runs of different repeats were interleaved, for "
        "example because jobs waited or were repeated."
    )


def _seed(entry: ProvenanceSummary) -> int | None:
    submission = entry.content.get("submission")
    seed = submission.get("seed") if isinstance(submission, dict) else None
    return seed if isinstance(seed, int) else None

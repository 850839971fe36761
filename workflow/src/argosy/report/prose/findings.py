"""Findings in plain words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from argosy.report.numbers import count, duration, interval, number, percent, samples
from argosy.report.prose import doubts, long_steps, not_finite, sizes, slowdowns
from argosy.report.prose.size_names import listed, name_among, same_width, size
from argosy.report.prose.unused_gpus import unused_gpus
from argosy.report.runs.measurements import ALLREDUCES_ALONE, Point
from argosy.report.runs.steady import OTHER
from argosy.report.runs.stragglers import Straggler
from argosy.report.statistics.estimates import Estimate, together
from argosy.report.statistics.few_runs import slow_jobs
from argosy.report.summary.allreduces import AllreduceSummary
from argosy.report.summary.laws import Laws, MeasuredSizes, sentence
from argosy.report.summary.models import ExperimentSummary, PointSummary, RunSummary, Summary
from argosy.report.topics.losses import NAMES
from argosy.results.tables import PHASES
from argosy.units import amount

CLOCKS_AGREE_S = 1.0
"""Ranks end a step together to within less than this; what is beyond is their nodes' clocks'."""
MUCH_BETWEEN_STEPS = 0.05
"""Of the steady time; more than that is worth a remark."""
_SMALLER = 0.95
"""Batches above this share of the base's are taken for as large."""
LEAST_LOSS = 0.02
"""A factor nearer to 1 is not worth a sentence."""
_LOSSES = {
    "load_balance": "load imbalance",
    "communication": "communication",
    "data": "waiting for data",
    "computation": "slower computation",
}
CLEARLY_ABOVE = 1.05
"""An efficiency without an interval that is above this is worth a sentence."""
MOST_NAMED = 4
"""Runs of one cause; of more, their number is said."""
_STATES = ("completed", "failed", "interrupted", "cancelled", "unfinished", "pending")


def phase_names(experiment: ExperimentSummary) -> list[str]:
    """Return the phases that any point of the experiment has, in the order of a step."""
    found = {name for point in experiment.points for name in point.phases_s_per_step}
    return [name for name in (*PHASES, OTHER) if name in found]


def metric_names(experiment: ExperimentSummary) -> list[str]:
    """Return the metrics that any point of the experiment has, in order."""
    return sorted({name for point in experiment.points for name in point.metrics})


def factor_names(experiment: ExperimentSummary) -> list[str]:
    """Return the factors of efficiency that any point of the experiment has, their product last."""
    found = {name for point in experiment.points for name in point.factors}
    return [name for name in NAMES if name in found]


def states(found: Mapping[str, int]) -> str:
    """`9 completed, 1 failed and 2 pending`, what is done first."""
    return listed([f"{found[state]} {state}" for state in _STATES if found.get(state)])


def findings(experiment: ExperimentSummary) -> list[str]:
    """Return what an experiment showed, a sentence a point, the base case first."""
    base = next((one for one in experiment.points if _is_base(experiment, one)), None)
    if base is None or base.throughput_samples_per_s is None:
        if experiment.allreduces:
            return _allreduce_sentences(experiment)
        return [f"No throughput was measured: of its runs, {states(experiment.states)}."]
    others = [one for one in experiment.points if one.speed_up and one is not base]
    alone = "" if others else " There is no other size to compare it with."
    law = sentence(Laws(experiment.laws, experiment.no_law), measured_sizes(experiment))
    loss = largest_loss(experiment)
    unseen = _unseen(experiment, base, others[-1]) if others else None
    return [
        _base_sentence(experiment, base) + alone,
        *(_comparison(experiment, base, other) for other in others),
        *([unseen] if unseen else []),
        *([_loss_sentence(experiment, base, loss)] if loss else []),
        *([law] if law else []),
    ]


def cautions(experiment: ExperimentSummary) -> list[str]:
    """Return what to know before the numbers of an experiment are used."""
    return [
        *_slow_jobs(experiment),
        *sizes.batches(experiment),
        *_between_steps(experiment),
        *unused_gpus(experiment),
    ]


def left_out(summary: Summary, experiment: ExperimentSummary) -> list[str]:
    """Completed runs of which no throughput counts, a sentence for each cause."""
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


def _unseen(experiment: ExperimentSummary, base: PointSummary, largest: PointSummary) -> str | None:
    """Return what difference the runs of the largest size would not have shown; None where nobody knows."""
    if largest.detectable_ratio is None:
        return None
    here, there = len(largest.runs_samples_per_s), len(base.runs_samples_per_s)
    runs = (
        f"{count(here, 'run')} per size"
        if here == there
        else f"{count(here, 'run')} against {there}"
    )
    return (
        f"With {runs}, this study can detect differences above "
        f"{percent(largest.detectable_ratio - 1, 1)} between {size(experiment, base)} and "
        f"{size(experiment, largest)} (80 % power)."
    )


def _between_steps(experiment: ExperimentSummary) -> list[str]:
    """Return the sentence that much of the time is in no step, where it is."""
    much = [
        f"{percent(one.between_steps.mean)} with {size(experiment, one)}"
        for one in experiment.points
        if one.between_steps and one.between_steps.mean > MUCH_BETWEEN_STEPS
    ]
    if not much:
        return []
    much[0] = much[0].replace(" with", " of the steady time with", 1)
    return [
        f"Time between steps (validation, checkpoints) is {listed(much)}. Throughput and node-hours count "
        "steps alone, so a training takes longer."
    ]


def _slow_jobs(experiment: ExperimentSummary) -> list[str]:
    said = []
    for point in experiment.points:
        found = slow_jobs(point.runs_samples_per_s)
        if found is not None:
            share = f"{100 * found.low:.0f} to {percent(found.high)}"
            said.append(
                f"Of {found.runs} runs with {size(experiment, point)}, {len(found.slow)} took "
                f"{number(found.ratio)} times as long as the others: {share} of all such jobs may be slow, "
                "and the mean tells of neither group. The remarks of the runs name them."
            )
    return said


def measured_sizes(experiment: ExperimentSummary) -> MeasuredSizes:
    """Return the sizes of an experiment, at least one, that have a throughput: `1 to 4 nodes`."""
    measured = [point for point in experiment.points if point.throughput_samples_per_s]
    ranks = sorted(point.ranks for point in measured)
    by_nodes = same_width(experiment)
    numbers = sorted(point.nodes for point in measured) if by_nodes else ranks
    most = count(numbers[-1], "node" if by_nodes else "rank")
    said = most if numbers[0] == numbers[-1] else f"{numbers[0]:,} to {most}"
    return MeasuredSizes(said, ranks[0], ranks[-1])


def _allreduce_sentences(experiment: ExperimentSummary) -> list[str]:
    """Return what allreduces alone took at each size: the smallest message and the largest."""
    by_size: dict[tuple[int, int], list[AllreduceSummary]] = {}
    for one in experiment.allreduces:
        by_size.setdefault((one.ranks, one.nodes), []).append(one)
    return [
        "It times allreduces alone and trains nothing, so it has no throughput.",
        *(
            f"{name_among(experiment.allreduces, times[0])}: {listed(_ends(times))}."
            for times in by_size.values()
        ),
    ]


def _ends(times: Sequence[AllreduceSummary]) -> list[str]:
    ends = [times[0], times[-1]] if len(times) > 1 else times
    return [
        f"an allreduce of {amount(one.bytes)} takes {number(1000 * one.seconds.mean)} ms"
        for one in ends
    ]


def remarks(run: RunSummary) -> list[str]:
    """Return what a reader should know of a run's records."""
    found = (
        (run.unreadable_records, "Records that could not be read: {:,}."),
        (run.duplicate_steps, "Steps recorded twice, of which the first counts: {:,}."),
        (run.missing_steps, "Steps that other ranks recorded and these did not: {:,}."),
        (run.repeated_steps, "Steps done again after an interruption, counted once: {:,}."),
    )
    said = [text.format(amount) for amount, text in found if amount]
    if run.counted_as:
        said.insert(0, f"It counts to {run.counted_as}.")
    if run.is_far_off:
        said.insert(0, "Its throughput is far off the other repeats'; it counts all the same.")
    if run.is_slow:
        where = f" It ran on {listed(sorted(set(run.hosts)))}." if run.hosts else ""
        said.insert(
            0, f"It is one of the slow jobs among those of its size; it counts all the same.{where}"
        )
    if run.slower_from is not None:
        said.insert(0, slowdowns.remark(run))
    elif run.is_steady is False and not run.left_out:
        said.insert(
            0,
            f"The first {count(run.warm_up_steps or 0, _counted(run))} left out; {run.warm_up}.",
        )
    if run.warm_up_excess is not None and run.warm_up_excess > 1:
        said.insert(
            0,
            f"Its throughput is {percent(run.warm_up_excess - 1)} above that of the {_counted(run)}s that "
            f"count: "
            f"{run.warm_up}.",
        )
    if run.between_steps is not None and run.between_steps > MUCH_BETWEEN_STEPS:
        said.append(
            f"{percent(run.between_steps)} of its steady time lies between steps, as validation and "
            "checkpoints do; throughput by steps does not contain it."
        )
    said += not_finite.remarks(run)
    said += filter(None, [doubts.remark(run), long_steps.remark(run)])
    said += [_straggler(run, one) for one in run.stragglers]
    spread = run.clock_spread_s
    if spread is not None and spread > CLOCKS_AGREE_S:
        said.append(f"Its nodes' clocks differ by {duration(spread)}.")
    return said


def _counted(run: RunSummary) -> str:
    """Return what a run's warm-up is counted in."""
    return "print" if run.throughput_source == "printed" else "step"


def _straggler(run: RunSummary, slow: Straggler) -> str:
    host = run.hosts[slow.node] if slow.node < len(run.hosts) else "unknown host"
    who = f"Node {slow.node}" if slow.rank is None else f"Rank {slow.rank} on node {slow.node}"
    return (
        f"{who} ({host}) is slow: its own work takes {number(slow.ratio.mean)} times "
        f"({interval(slow.ratio)}) as long as that of the others; {percent(slow.share)} of its steps are "
        "slow."
    )


def _is_base(experiment: ExperimentSummary, point: PointSummary) -> bool:
    return Point(point.ranks, point.nodes, point.ranks_per_node) == experiment.base


def _base_sentence(experiment: ExperimentSummary, base: PointSummary) -> str:
    rate = base.throughput_samples_per_s
    assert rate is not None
    spread = (
        "one run, so no interval"
        if rate.n == 1
        else _interval_of(rate, f"n = {rate.n}", base.no_interval)
    )
    verb = "gives" if base.nodes == 1 else "give"
    return (
        f"{size(experiment, base)} {verb} {number(rate.mean)} samples per second ({spread})."
        f"{sizes.lost(experiment, base)}"
    )


def _comparison(experiment: ExperimentSummary, base: PointSummary, point: PointSummary) -> str:
    speed_up, efficiency = point.speed_up, point.efficiency
    assert speed_up is not None and efficiency is not None
    verb = "gives" if point.nodes == 1 else "give"
    return (
        f"{size(experiment, point)} {verb} {number(speed_up.mean)} times the throughput of "
        f"{size(experiment, base)} ({_spread(speed_up, base, point.no_interval)}): "
        f"efficiency {percent(efficiency.mean)}.{_no_gain(speed_up)}"
        f"{_more_than_ideal(efficiency, point.no_interval)}"
        f"{sizes.lost(experiment, point)}"
    )


def _no_gain(speed_up: Estimate) -> str:
    if speed_up.low is None or speed_up.high is None or not speed_up.low <= 1 <= speed_up.high:
        return ""
    return " No significant speed-up."


def _more_than_ideal(efficiency: Estimate, no_interval: str | None) -> str:
    """Return the sentence on an efficiency that is surely above 100 %, or clearly where nothing is sure."""
    if no_interval:
        is_above, surely = efficiency.mean > CLEARLY_ABOVE, ""
    else:
        is_above, surely = (efficiency.low or 0.0) > 1, ", beyond chance"
    if not is_above:
        return ""
    return (
        f" That is more than ideal{surely}. Possible causes are caches, or a base that was slowed "
        "down by its clocks or a neighbour."
    )


def worst_factor(point: PointSummary) -> str | None:
    """Return the name of a size's smallest factor among those surely below 1; None where none is."""
    below = {
        name: factor.mean
        for name, factor in point.factors.items()
        if name != NAMES[-1] and factor.high is not None and factor.high < 1
    }
    return min(below, key=lambda name: below[name], default=None)


@dataclass(frozen=True)
class Loss:
    """The factor by which the largest size loses most of its efficiency, beyond chance."""

    name: str
    point: PointSummary
    factor: Estimate

    @property
    def what(self) -> str:
        """Its name in words."""
        return _LOSSES[self.name]


def largest_loss(experiment: ExperimentSummary) -> Loss | None:
    """Return by what most of the efficiency is lost at the largest size; None where nothing is shown."""
    compared = [one for one in experiment.points if one.speed_up]
    name = worst_factor(compared[-1]) if compared else None
    if name is None:
        return None
    # The worst of several is chosen, so all of them have to hold together.
    worst = together(compared[-1].factors[name], len(compared[-1].factors) - 1)
    # Beyond chance: the interval says that it is a loss at all.
    if worst.mean > 1 - LEAST_LOSS or worst.high is None or worst.high >= 1:
        return None
    return Loss(name, compared[-1], worst)


def _loss_sentence(experiment: ExperimentSummary, base: PointSummary, loss: Loss) -> str:
    what = loss.what[0].upper() + loss.what[1:]
    smaller = _smaller_batch(experiment, base, loss.point) if loss.name == "computation" else ""
    return (
        f"{what} is the main loss with {size(experiment, loss.point)}: an efficiency factor of "
        f"{number(loss.factor.mean)} ({interval(loss.factor)}).{smaller}"
    )


def _smaller_batch(experiment: ExperimentSummary, base: PointSummary, largest: PointSummary) -> str:
    """Return the sentence that the ranks' batches are smaller than in the base, where they are."""
    here, there = largest.samples_per_step, base.samples_per_step
    if here is None or there is None or here > _SMALLER * there:
        return ""
    return (
        f" Each rank's batch is {samples(here)} samples there, against {samples(there)} with "
        f"{size(experiment, base)}: smaller batches compute less efficiently."
    )


def _spread(speed_up: Estimate, base: PointSummary, no_interval: str | None) -> str:
    assert base.throughput_samples_per_s is not None
    base_n = base.throughput_samples_per_s.n
    runs = f"n = {speed_up.n}" if speed_up.n == base_n else f"n = {speed_up.n} against {base_n}"
    is_single = min(speed_up.n, base_n) == 1
    return f"{runs}, so no interval" if is_single else _interval_of(speed_up, runs, no_interval)


def _interval_of(estimate: Estimate, runs: str, no_interval: str | None) -> str:
    """Return the words for an interval; runs that agree to the last digit do not show that others would."""
    if no_interval:
        return f"{runs}, no interval: {no_interval}"
    if estimate.low is None:
        return f"{runs}, all alike to the last digit"
    return f"95 % interval {interval(estimate)}, {runs}"


def warm_up(summary: Summary) -> str:
    """Return how much was left out of the runs as warm-up, and by what rule."""
    runs = [run for run in summary.runs if run.warm_up_steps is not None]
    counted = {_counted(run) for run in runs}
    source = " or ".join(f"{noun}s" for noun in ("step", "print") if noun in counted)
    said = [
        f"Warm-up ends at the last significant drop of a run's {source.replace(' or ', ' and ')} in mean "
        "log time, after which they become no faster."
    ]
    for noun in ("step", "print"):
        found = sorted(run.warm_up_steps or 0 for run in runs if _counted(run) == noun)
        if found:
            most = count(found[-1], noun)
            said.append(
                f"Left out of a run: {most if found[0] == found[-1] else f'{found[0]} to {most}'}."
            )
    fitted = sum((run.warm_up_excess or 1) > 1 for run in runs)
    if fitted:
        said.append(
            f"Of {count(fitted, 'run')} the steady state is a fit: what an exponential approaches that "
            "agrees with all steps."
        )
    unknown = [run for run in summary.runs if run.is_steady is False and run.slower_from is None]
    never = sum(run.left_out == run.warm_up for run in unknown)
    if never:
        said.append(
            f"Left out whole, since no steady state is seen in them: {count(never, 'run')}."
        )
    if len(unknown) > never:
        said.append(f"With too few {source} to tell: {count(len(unknown) - never, 'run')}.")
    return " ".join(said)

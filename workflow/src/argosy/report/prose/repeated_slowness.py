"""Sentences on hosts and ranks that were slow in run after run."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from argosy.errors import some
from argosy.report.runs.scaling import days
from argosy.report.summary.models import ExperimentSummary, RunSummary, Summary
from argosy.report.topics.slow_again import LookedAt, SlowRank, slow_hosts, slow_ranks_again


def host_sentences(summary: Summary) -> list[str]:
    """Return a sentence for each host that was slow where other hosts were not."""
    return [
        f"{one.host} was slow in {one.slow_runs} of the {one.runs} runs that it took part in, and other "
        "hosts at its place were not."
        for one in slow_hosts(_looked_at(summary.runs))
    ]


def rank_sentences(summary: Summary, experiment: ExperimentSummary) -> list[str]:
    """Return a sentence for the ranks of an experiment that were slow wherever they ran, or as often."""
    of_experiment = [run for run in summary.runs if run.counts_to == experiment.experiment]
    if not any(run.stragglers for run in of_experiment):
        return []
    named = [one.host for one in slow_hosts(_looked_at(summary.runs))]
    alike: defaultdict[tuple[int, int, tuple[str, ...], bool], list[SlowRank]] = defaultdict(list)
    for rank in slow_ranks_again(_looked_at(of_experiment), named):
        alike[rank.slow_runs, rank.runs, rank.hosts, rank.others_were_not].append(rank)
    return [_sentence(ranks) for ranks in alike.values()]


def _looked_at(runs: Iterable[RunSummary]) -> list[LookedAt]:
    known = [run for run in runs if run.hosts and run.throughput_source == "steps"]
    return [
        LookedAt(
            (run.counts_to, run.nodes, run.ranks_per_node, day),
            tuple(host for host in run.hosts for _ in range(run.ranks_per_node)),
            frozenset(_slow_ranks(run)),
        )
        for run, day in zip(known, days([run.started_unix_s for run in known]), strict=True)
    ]


def _slow_ranks(run: RunSummary) -> Iterable[int]:
    for one in run.stragglers:
        if one.rank is None:
            yield from range(one.node * run.ranks_per_node, (one.node + 1) * run.ranks_per_node)
        else:
            yield one.rank


def _sentence(ranks: Sequence[SlowRank]) -> str:
    one, numbers = ranks[0], [str(each.rank) for each in ranks]
    who = f"Rank {numbers[0]} was" if len(ranks) == 1 else f"Ranks {some(numbers)} were"
    it, has = ("it", "has") if len(ranks) == 1 else ("they", "have")
    times = f"{who} slow in {one.slow_runs} of {one.runs} runs"
    if one.has_more_to_do:
        return f"{times}, on {len(one.hosts)} hosts: {it} {has} more to do."
    if one.others_were_not:
        return (
            f"{times} on {one.hosts[0]}, where other ranks were not: {it} {has} more to do, or slower "
            "cores or GPUs."
        )
    return (
        f"{times}, on {some(one.hosts)}: these runs do not tell whether {it} {has} more to do or the host "
        "is slow. Runs on other hosts do (`exclude`)."
    )

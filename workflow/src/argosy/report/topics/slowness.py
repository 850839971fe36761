"""Slow jobs, runs that slow down, and hosts or ranks that are slow in several runs.

A rank may be slow because of its host, or because it has more work, for example from uneven shards of data.
Only runs that differ in one of the two can distinguish them. So a host is compared with other hosts in the
same position of the same size on the same day, and a rank with other ranks on the same host. Each
comparison is Fisher's exact test of slow against not slow, combined over strata (Mantel and Haenszel,
Journal of the National Cancer Institute 22, 1959) by the exact distribution of the sum. Over hosts, and
over ranks, levels are Holm's (Scandinavian Journal of Statistics 6(2), 1979).
"""

from collections import Counter, defaultdict
from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, gammaln

from argosy.report.numbers import count, number, percent
from argosy.report.runs.scaling import days
from argosy.report.runs.stragglers import SIGNIFICANCE
from argosy.report.sizes import name_among, size
from argosy.report.statistics.few_runs import slow_jobs
from argosy.report.summary.models import ExperimentSummary, RunSummary, Summary
from argosy_common.errors import some

FALSELY_NAMED = 0.05
"""Probability of naming any host, or any rank, although all are alike."""
FEWEST_RUNS = 2

Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True)
class LookedAt:
    """A run whose ranks were compared with each other.

    Args:
        like: Key of comparable runs: experiment, size and day.
        hosts: Host of each rank.
        slow: The slow ranks.
    """

    like: Hashable
    hosts: tuple[str, ...]
    slow: frozenset[int]


@dataclass(frozen=True)
class SlowHost:
    """A host that was slow in `slow_runs` of its `runs`, while others were not."""

    host: str
    slow_runs: int
    runs: int


@dataclass(frozen=True)
class SlowRank:
    """A rank that was slow in `slow_runs` of its `runs`, on these hosts.

    `others_were_not`: other ranks on the same hosts were not slow. If False, the cause may be the rank or
    its host.
    """

    rank: int
    slow_runs: int
    runs: int
    hosts: tuple[str, ...]
    others_were_not: bool

    @property
    def has_more_to_do(self) -> bool:
        """Whether it is slow on several hosts; on a single host, cores or a GPU may be the cause."""
        return self.others_were_not and len(self.hosts) > 1


@dataclass(frozen=True)
class _Cell:
    """A rank, or all ranks on one host, in one run."""

    like: Hashable
    rank: int
    host: str
    is_slow: bool


def slow_hosts(runs: Iterable[LookedAt]) -> list[SlowHost]:
    """Return the hosts that were significantly slow in at least two runs, by name."""
    cells = [cell for run in runs for cell in _host_cells(run)]
    named = _named(cells, lambda cell: cell.host, lambda cell: (cell.like, cell.rank))
    return [
        SlowHost(host, sum(cell.is_slow for cell in its), len(its))
        for host in sorted(named)
        if (its := [cell for cell in cells if cell.host == host])
    ]


def slow_ranks_again(runs: Sequence[LookedAt], slow_hosts: Collection[str]) -> list[SlowRank]:
    """Return the ranks that were significantly slow in at least two runs, by number.

    Args:
        runs: Runs of one experiment.
        slow_hosts: Hosts that explain the slowness of their ranks.
    """
    cells = [cell for run in runs for cell in _rank_cells(run)]
    certain = _named(cells, lambda cell: cell.rank, lambda cell: (cell.like, cell.host))
    unexplained = Counter(
        cell.rank for cell in cells if cell.is_slow and cell.host not in slow_hosts
    )
    either = {rank for rank in _beyond_chance(runs) if unexplained[rank] >= FEWEST_RUNS}
    return [_slow_rank(cells, rank, rank in certain) for rank in sorted(certain | either)]


def _rank_cells(run: LookedAt) -> Iterable[_Cell]:
    for rank, host in enumerate(run.hosts):
        yield _Cell(run.like, rank, host, rank in run.slow)


def _host_cells(run: LookedAt) -> Iterable[_Cell]:
    """Yield a cell for each host, with its first rank as position."""
    ranks: defaultdict[str, list[int]] = defaultdict(list)
    for rank, host in enumerate(run.hosts):
        ranks[host].append(rank)
    for host, its in ranks.items():
        yield _Cell(run.like, its[0], host, not run.slow.isdisjoint(its))


def _named(
    cells: Sequence[_Cell], name: Callable[[_Cell], Name], stratum: Callable[[_Cell], Hashable]
) -> set[Name]:
    """Return the names whose cells are significantly slow within their strata."""
    strata: defaultdict[Hashable, list[_Cell]] = defaultdict(list)
    for cell in cells:
        strata[stratum(cell)].append(cell)
    counts: defaultdict[Name, list[_Counts]] = defaultdict(list)
    for of_stratum in strata.values():
        slow = Counter(name(cell) for cell in of_stratum if cell.is_slow)
        for one, its in Counter(name(cell) for cell in of_stratum).items():
            found = _Counts(len(of_stratum), slow.total(), its, slow[one])
            if found.can_tell:
                counts[one].append(found)
    chance = {one: _chance_of_as_many(of_one) for one, of_one in counts.items()}
    return {
        one
        for one in _holm(chance, len(counts))
        if sum(found.its_slow for found in counts[one]) >= FEWEST_RUNS
    }


@dataclass(frozen=True)
class _Counts:
    """Counts of a stratum: its cells and slow cells, in total and for one name."""

    cells: int
    slow: int
    its: int
    its_slow: int

    @property
    def can_tell(self) -> bool:
        """Whether the stratum is informative: it has other names, slow cells and other cells."""
        return self.its < self.cells and 0 < self.slow < self.cells


def _chance_of_as_many(strata: Sequence[_Counts]) -> float:
    """Return the p-value of a name's number of slow cells, if names do not matter within strata."""
    distribution = np.ones(1)
    for one in strata:
        distribution = np.convolve(distribution, _hypergeometric(one.cells, one.slow, one.its))
    return float(distribution[sum(one.its_slow for one in strata) :].sum())


def _hypergeometric(cells: int, slow: int, its: int) -> NDArray[np.float64]:
    """Return the probabilities of 0, 1, … `its` slow cells among `its` of all cells."""
    of_its = np.arange(its + 1)
    others = slow - of_its
    can_be = (others >= 0) & (others <= cells - its) & (of_its <= slow)
    logs = _log_choose(its, of_its) + _log_choose(cells - its, np.where(can_be, others, 0))
    return np.where(can_be, np.exp(logs - _log_choose(cells, slow)), 0.0)


def _log_choose(of: int, some: int | NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray(gammaln(of + 1) - gammaln(some + 1) - gammaln(of - np.asarray(some) + 1))


def _beyond_chance(runs: Sequence[LookedAt]) -> set[int]:
    """Return the ranks that are slow in more runs than expected from SIGNIFICANCE, if all are alike."""
    slow: Counter[int] = Counter(rank for run in runs for rank in run.slow)
    chance = {}
    for rank in slow:
        chances = [SIGNIFICANCE / len(run.hosts) for run in runs if rank < len(run.hosts)]
        mean = sum(chances) / len(chances)
        chance[rank] = float(bdtrc(slow[rank] - 1, len(chances), mean))
    most = max((len(run.hosts) for run in runs), default=0)
    return {rank for rank in _holm(chance, most) if slow[rank] >= FEWEST_RUNS}


def _holm(chance: Mapping[Name, float], present: int) -> list[Name]:
    """Return the significant names by Holm's method, among `present` candidates."""
    found = []
    for place, name in enumerate(sorted(chance, key=chance.__getitem__)):
        if chance[name] > FALSELY_NAMED / (present - place):
            break
        found.append(name)
    return found


def _slow_rank(cells: Sequence[_Cell], rank: int, others_were_not: bool) -> SlowRank:
    its = [cell for cell in cells if cell.rank == rank]
    slow = [cell for cell in its if cell.is_slow]
    hosts = tuple(sorted({cell.host for cell in slow}))
    return SlowRank(rank, len(slow), len(its), hosts, others_were_not)


def host_sentences(summary: Summary) -> list[str]:
    """Return a sentence for each slow host."""
    return [
        f"{one.host} was slow in {one.slow_runs} of its {one.runs} runs; other hosts in the same "
        "position were not."
        for one in slow_hosts(_looked_at(summary.runs))
    ]


def rank_sentences(summary: Summary, experiment: ExperimentSummary) -> list[str]:
    """Return sentences on the slow ranks of an experiment, with equal cases combined."""
    of_experiment = [run for run in summary.runs if run.counts_to == experiment.experiment]
    if not any(run.stragglers for run in of_experiment):
        return []
    named = [one.host for one in slow_hosts(_looked_at(summary.runs))]
    alike: defaultdict[tuple[int, int, tuple[str, ...], bool], list[SlowRank]] = defaultdict(list)
    for rank in slow_ranks_again(_looked_at(of_experiment), named):
        alike[rank.slow_runs, rank.runs, rank.hosts, rank.others_were_not].append(rank)
    return [_sentence(ranks) for ranks in alike.values()]


def _looked_at(runs: Iterable[RunSummary]) -> list[LookedAt]:
    known = [
        run for run in runs if run.hosts and all(run.hosts) and run.throughput_source == "steps"
    ]
    return [
        LookedAt(
            (run.counts_to, run.point, day),
            tuple(host for host in run.hosts if host for _ in range(run.ranks_per_node)),
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
        return f"{times}, on {len(one.hosts)} hosts: {it} {has} more work."
    if one.others_were_not:
        return (
            f"{times} on {one.hosts[0]}, where other ranks were not: {it} {has} more work, or slower "
            "cores or GPUs."
        )
    return (
        f"{times}, on {some(one.hosts)}: these runs cannot show whether {it} {has} more work or "
        "the host is slow. Measure on other hosts to find out (`exclude`)."
    )


ALIKE = 1.02
"""Ratio between the slowdowns of sizes below which they count as equal."""


def remark(run: RunSummary) -> str:
    """Return the remark on a run that slows down."""
    of = "print" if run.throughput_source == "printed" else "step"
    return (
        f"From {of} {run.slower_from:,} to the end, its {of}s take {number(run.slower)} times as "
        "long as before. Possible causes are lower clocks, another job on the node, or more "
        "work. Its throughput is the mean of both parts."
    )


def sentences(summary: Summary, experiment: ExperimentSummary) -> list[str]:
    """Return a sentence if runs of different sizes slow down differently."""
    measured = [
        run
        for run in summary.runs
        if run.counts_to == experiment.experiment and run.samples_per_s is not None
    ]
    slower = [
        (median(ratios), name_among(experiment.sizes, point))
        for point in experiment.points
        if (ratios := [run.slower for run in measured if run.point == point.point])
    ]
    if not slower or max(slower)[0] < ALIKE * min(slower)[0]:
        return []
    told = ", ".join(f"{number(ratio)} times with {name}" for ratio, name in slower)
    return [
        f"Steps become slower during runs (median: {told}). Speed-ups compare means over whole "
        "runs, so they include this slowdown. The remarks of the runs name the step."
    ]


def slow_job_sentences(experiment: ExperimentSummary) -> list[str]:
    said = []
    for point in experiment.points:
        found = slow_jobs(point.runs_samples_per_s)
        if found is not None:
            share = f"{100 * found.low:.0f} to {percent(found.high)}"
            said.append(
                f"Of {found.runs} runs with {size(experiment, point)}, {len(found.slow)} took "
                f"{number(found.ratio)} times as long as the others. {share} of all such jobs may "
                "be slow, and the mean describes neither group. The remarks name the slow runs."
            )
    return said


def methods(summary: Summary) -> Iterator[str]:
    """Describe the search for slow ranks, if any were found."""
    slow = sum(bool(run.stragglers) for run in summary.runs)
    if slow:
        yield (
            "Ranks are compared by their own work (all phases except communication), since a "
            "slow rank delays the others in communication. Slow ranks were found in "
            f"{count(slow, 'run')}."
        )

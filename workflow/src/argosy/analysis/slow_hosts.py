"""Hosts that were slow in more runs than chance would have it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from scipy.special import bdtrc

from argosy.analysis.stragglers import SIGNIFICANCE

FALSELY_NAMED = 0.05
"""The chance that any host of a study is named though all are alike."""
FEWEST_RUNS = 2


@dataclass(frozen=True)
class HostRuns:
    """The hosts of a run that was looked at, and those of them that were slow in it."""

    hosts: frozenset[str]
    slow: frozenset[str]


@dataclass(frozen=True)
class SlowHost:
    """A host that was slow in `slow_runs` of the `runs` that it took part in."""

    host: str
    slow_runs: int
    runs: int


def slow_hosts(runs: Iterable[HostRuns]) -> list[SlowHost]:
    """Return the hosts that were slow in two runs at least, and beyond chance, by name.

    In a run whose ranks are all alike, any host is named with a chance of SIGNIFICANCE over the number of
    hosts. Over runs this is a binomial test, and over hosts its levels are Holm's (Scandinavian Journal of
    Statistics 6(2), 1979).
    """
    present: Counter[str] = Counter()
    slow: Counter[str] = Counter()
    chances: Counter[str] = Counter()
    for run in runs:
        present.update(run.hosts)
        slow.update(run.slow)
        for host in run.hosts:
            # A counter of chances: their mean is the chance of a run.
            chances[host] += SIGNIFICANCE / len(run.hosts)  # type: ignore[assignment]
    by_chance = {
        host: float(bdtrc(times - 1, present[host], chances[host] / present[host]))
        for host, times in slow.items()
    }
    named = []
    for place, host in enumerate(sorted(by_chance, key=by_chance.__getitem__)):
        if by_chance[host] > FALSELY_NAMED / (len(present) - place):
            break
        if slow[host] >= FEWEST_RUNS:
            named.append(SlowHost(host, slow[host], present[host]))
    return sorted(named, key=lambda one: one.host)

"""A host is named where it was slow again and again."""

import numpy as np

from argosy.analysis.slow_hosts import HostRuns, SlowHost, slow_hosts
from argosy.analysis.stragglers import SIGNIFICANCE

HOSTS = frozenset(f"host{number}" for number in range(8))


def run(*slow: str) -> HostRuns:
    return HostRuns(HOSTS, frozenset(slow))


def test_once_is_chance_and_twice_in_a_few_runs_is_not() -> None:
    assert slow_hosts([run("host1"), run(), run()]) == []
    assert slow_hosts([run("host1"), run("host1"), run()]) == [SlowHost("host1", 2, 3)]


def test_twice_in_hundreds_of_runs_is_chance() -> None:
    runs = [run("host1"), run("host1"), *[run()] * 400]
    assert slow_hosts(runs) == []


def test_only_the_runs_of_a_host_count() -> None:
    elsewhere = HostRuns(frozenset({"other"}), frozenset())
    assert slow_hosts([run("host1"), run("host1"), *[elsewhere] * 400]) == [SlowHost("host1", 2, 2)]


def test_alike_hosts_are_hardly_ever_named() -> None:
    chance = np.random.default_rng(5)
    named = 0
    for _ in range(500):
        found = chance.random((60, len(HOSTS))) < SIGNIFICANCE / len(HOSTS)
        runs = [run(*(f"host{place}" for place in np.flatnonzero(row))) for row in found]
        named += bool(slow_hosts(runs))
    assert named / 500 <= 0.05


def test_without_runs_there_is_none() -> None:
    assert slow_hosts([]) == []

"""A repeatedly slow host or rank is named only if the other cannot be the cause."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from argosy.report.runs.stragglers import SIGNIFICANCE
from argosy.report.topics.slowness import LookedAt, SlowHost, SlowRank, slow_hosts, slow_ranks_again

HOSTS = tuple(f"host{number}" for number in range(8))
STUDIES = 200


def run(hosts: Sequence[str], *slow: int, like: str = "4 nodes") -> LookedAt:
    return LookedAt(like, tuple(hosts), frozenset(slow))


def drawn(chance: np.random.Generator, is_sorted: bool = False) -> tuple[str, ...]:
    hosts = [HOSTS[place] for place in chance.choice(len(HOSTS), 4, replace=False)]
    return tuple(sorted(hosts) if is_sorted else hosts)


def named(runs: Sequence[LookedAt]) -> tuple[list[str], list[int]]:
    """Return the named hosts, and the ranks that are reported to have more work."""
    hosts = [one.host for one in slow_hosts(runs)]
    ranks = slow_ranks_again(runs, hosts)
    return hosts, [one.rank for one in ranks if one.has_more_to_do]


def studies(is_sorted: bool) -> Iterator[list[tuple[str, ...]]]:
    chance = np.random.default_rng(3)
    for _ in range(STUDIES):
        yield [drawn(chance, is_sorted) for _ in range(12)]


@pytest.mark.parametrize("is_sorted", [False, True])
def test_a_rank_with_more_work_is_named_and_no_host(is_sorted: bool) -> None:
    found = [named([run(hosts, 1) for hosts in study]) for study in studies(is_sorted)]
    assert sum(bool(hosts) for hosts, _ in found) <= 0.05 * STUDIES
    assert sum(ranks == [1] for _, ranks in found) >= 0.95 * STUDIES


@pytest.mark.parametrize("is_sorted", [False, True])
def test_a_slow_host_is_named_and_no_rank(is_sorted: bool) -> None:
    found = [
        named(
            [
                run(hosts, *(place for place in range(4) if hosts[place] == "host2"))
                for hosts in study
            ]
        )
        for study in studies(is_sorted)
    ]
    assert sum(hosts == ["host2"] for hosts, _ in found) >= 0.95 * STUDIES
    assert sum(bool(ranks) for _, ranks in found) <= 0.05 * STUDIES


def test_alike_hosts_and_ranks_are_hardly_ever_named() -> None:
    chance = np.random.default_rng(5)
    by_chance = 0
    for _ in range(STUDIES):
        runs = [
            run(drawn(chance), *np.flatnonzero(chance.random(4) < SIGNIFICANCE)) for _ in range(30)
        ]
        hosts, ranks = named(runs)
        by_chance += bool(hosts or ranks)
    assert by_chance <= 0.05 * STUDIES


def test_always_together_nobody_can_tell() -> None:
    runs = [run(HOSTS[:4], 2)] * 6
    assert slow_hosts(runs) == []
    assert slow_ranks_again(runs, []) == [SlowRank(2, 6, 6, ("host2",), others_were_not=False)]


def test_on_a_single_host_other_ranks_tell_but_its_cores_may_be_slow() -> None:
    [found] = slow_ranks_again([run(["vm"] * 4, 1)] * 12, [])
    assert found == SlowRank(1, 12, 12, ("vm",), others_were_not=True)
    assert not found.has_more_to_do
    assert slow_hosts([run(["vm"] * 4, 1)] * 12) == []


def test_another_size_and_another_day_are_no_comparison() -> None:
    runs = [run(["a", "b"], 1, like="day 1")] * 6 + [run(["a", "c"], like="day 2")] * 6
    assert slow_hosts(runs) == []
    same_day = [run(["a", "b"], 1)] * 6 + [run(["a", "c"])] * 6
    assert slow_hosts(same_day) == [SlowHost("b", 6, 6)]


def test_all_ranks_of_a_slow_host_are_one() -> None:
    runs = [run(["a", "a", "b", "b"], 2, 3), run(["a", "a", "c", "c"])] * 4
    assert slow_hosts(runs) == [SlowHost("b", 4, 4)]
    assert slow_ranks_again(runs, ["b"]) == []


def test_once_is_chance() -> None:
    assert slow_ranks_again([run(HOSTS[:4], 1), run(HOSTS[:4]), run(HOSTS[:4])], []) == []
    runs = [run(HOSTS[:4], 1), run(HOSTS[:4], 1), *[run(HOSTS[:4])] * 400]
    assert slow_ranks_again(runs, []) == []


def test_without_runs_there_is_none() -> None:
    assert slow_hosts([]) == []
    assert slow_ranks_again([], []) == []

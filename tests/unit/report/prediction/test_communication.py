"""Networks from times of allreduces: found, chosen, sure as they say, and refused."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from allreduce_times import (
    BETWEEN,
    MESSAGE_BYTES,
    WITHIN,
    coverage,
    coverage_of_jobs,
    halving_s,
    hierarchical_s,
    hierarchical_times,
    ring_s,
    times_of_jobs,
)
from scipy import stats

from argosy.report.topics.laws.fits import Refused
from argosy.report.topics.prediction.communication import AllreduceTime, fit_communication
from argosy.report.topics.prediction.network import ALGORITHMS, Communication, Level


def fitted(times: list[AllreduceTime]) -> Communication:
    found = fit_communication(times)
    assert isinstance(found, Communication)
    return found


def values(level: Level | None) -> tuple[float, float]:
    assert level
    return level.latency_s.value, level.s_per_byte.value


def of_nodes(seconds: Callable[[float, int], float], noise: float = 0.03) -> list[AllreduceTime]:
    """One rank on each of 2 to 16 nodes."""
    chance = np.random.default_rng(5)
    return [
        AllreduceTime(
            size, nodes, 1, seconds(size, nodes) * float(np.exp(noise * chance.standard_normal()))
        )
        for nodes in (2, 4, 8, 16)
        for size in MESSAGE_BYTES
        for _ in range(2)
    ]


def test_what_was_put_in_comes_out() -> None:
    found = fitted(hierarchical_times(noise=0))
    assert found.algorithm == "hierarchical"
    assert values(found.within_node) == pytest.approx(WITHIN)
    assert values(found.between_nodes) == pytest.approx(BETWEEN)
    assert found.measurements == 90
    assert found.between_nodes
    assert found.between_nodes.bandwidth_bytes_per_s.value == pytest.approx(10e9)


@pytest.mark.parametrize(
    ("algorithm", "seconds"),
    [
        ("ring", lambda size, nodes: ring_s(size, nodes, BETWEEN)),
        ("halving", halving_s),
    ],
)
def test_the_algorithm_is_told_from_the_times(
    algorithm: str, seconds: Callable[[float, int], float]
) -> None:
    found = fitted(of_nodes(seconds))
    assert found.algorithm == algorithm
    assert values(found.between_nodes) == pytest.approx(BETWEEN, rel=0.05)
    assert found.within_node is None


def test_a_few_far_off_measurements_do_no_harm() -> None:
    times = hierarchical_times()
    for place in (0, 30, 60, 85):
        times[place] = replace(times[place], seconds=4 * times[place].seconds)
    found = fitted(times)
    assert found.algorithm == "hierarchical"
    assert values(found.between_nodes) == pytest.approx(BETWEEN, rel=0.03)


@pytest.mark.slow
def test_intervals_cover_the_truth_in_95_of_100() -> None:
    # The range of chance around 95 % for this number of studies.
    least, most = (stats.binom.ppf(chance, 300, 0.95) for chance in (0.002, 0.998))
    for name, hits in coverage(300, seed=1).items():
        assert least <= sum(hits) <= most, name


def test_a_network_without_latency() -> None:
    free = fitted(of_nodes(lambda size, nodes: ring_s(size, nodes, (0.0, 1e-10))))
    assert free.between_nodes
    assert free.between_nodes.latency_s.low == 0
    assert free.between_nodes.latency_s.high < 1e-9
    assert free.between_nodes.s_per_byte.value == pytest.approx(1e-10, rel=0.03)


def test_a_single_rank_is_left_out() -> None:
    times = hierarchical_times()
    alone = AllreduceTime(8, 1, 1, 1.0)
    assert values(fitted([alone, *times]).within_node) == values(fitted(times).within_node)


TIMES = hierarchical_times()


@pytest.mark.parametrize(
    ("times", "reason"),
    [
        ([], "The fit needs allreduces over 2 different numbers of ranks."),
        (
            [time for time in TIMES if time.nodes == 8],
            "The fit needs allreduces over 2 different numbers of ranks.",
        ),
        (
            # Two networks, and one number of ranks on each.
            [
                replace(time, nodes=nodes, ranks_per_node=4 // nodes)
                for nodes in (1, 4)
                for time in TIMES
            ],
            "The fit needs allreduces over 2 different numbers of ranks.",
        ),
        (
            [time for time in TIMES if time.bytes < 1e6],
            "The fit needs 4 different sizes of messages within a node, "
            "the largest 100 times the smallest.",
        ),
        (
            [time for time in TIMES if time.nodes == 1 or time.bytes < 1e6],
            "The fit needs 4 different sizes of messages between nodes, "
            "the largest 100 times the smallest.",
        ),
        (
            [replace(time, bytes=1e6 + time.bytes / 1e3) for time in TIMES],
            "The fit needs 4 different sizes of messages within a node, "
            "the largest 100 times the smallest.",
        ),
        (
            [AllreduceTime(10.0**power, 2 + power % 2, 1, 1.0) for power in range(7)],
            "The fit needs 8 measurements, and there are 7.",
        ),
        (
            [*TIMES, AllreduceTime(8, 2, 1, 0.0)],
            "The time or size of an allreduce is not a positive number.",
        ),
        (
            [*TIMES, AllreduceTime(8, 2, 1, float("nan"))],
            "The time or size of an allreduce is not a positive number.",
        ),
        (
            [*TIMES, AllreduceTime(0, 2, 1, 1.0)],
            "The time or size of an allreduce is not a positive number.",
        ),
    ],
)
def test_refusals(times: list[AllreduceTime], reason: str) -> None:
    assert fit_communication(times) == Refused(reason)


@pytest.mark.parametrize("job_scatter", [0.0, 0.02, 0.05])
def test_intervals_cover_the_truth_where_jobs_differ(job_scatter: float) -> None:
    """Times of a job taken for independent cover it in 30 to 60 of 100, where jobs scatter by 2 to 5 %."""
    for share in coverage_of_jobs(job_scatter, jobs=2, studies=150, seed=8).values():
        assert 0.9 <= share <= 0.99


def test_under_three_jobs_nobody_knows_how_jobs_differ() -> None:
    chance = np.random.default_rng(9)
    times = [time for time in times_of_jobs(0.02, 1, chance) if time.nodes < 8]
    found = fitted(times)
    assert found.jobs == 2
    assert found.between_nodes
    assert found.between_nodes.latency_s.high == found.between_nodes.s_per_byte.high == np.inf


@pytest.mark.parametrize("within", [1, 2])
def test_a_network_of_one_job_or_two_has_no_interval_whatever_the_other_has(within: int) -> None:
    """The only job of a network leaves no residual: its times alone would be sure to the last digit."""
    chance = np.random.default_rng(1)
    times = [
        AllreduceTime(size, nodes, 4, factor * hierarchical_s(size, nodes, 4), f"{nodes}-{job}")
        for nodes, jobs in ((1, within), (2, 3), (4, 3))
        for job in range(jobs)
        for size in MESSAGE_BYTES
        for factor in np.exp(0.03 * chance.standard_normal(3)).tolist()
    ]
    found = fit_communication(times, {"ring": ALGORITHMS["ring"]})
    assert isinstance(found, Communication)
    assert found.jobs == within
    assert found.within_node and found.between_nodes
    assert found.within_node.latency_s.high == found.within_node.s_per_byte.high == np.inf
    assert 0 < found.between_nodes.latency_s.low < found.between_nodes.latency_s.high < np.inf
    assert np.isfinite(found.covariance).all()


def test_single_times_are_jobs_of_their_own() -> None:
    assert fitted(hierarchical_times()).jobs is None

"""Synthetic times of allreduces whose networks are known, and how often intervals cover them."""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from argosy.report.topics.prediction.communication import AllreduceTime, fit_communication
from argosy.report.topics.prediction.network import ALGORITHMS, Communication

Network = tuple[float, float]

# Latency in seconds and seconds for a byte.
WITHIN: Network = (3e-6, 1 / 60e9)
BETWEEN: Network = (15e-6, 1 / 10e9)
MESSAGE_BYTES = (1e3, 1e4, 1e5, 1e6, 1e7, 1e8)
PLACES = ((1, 2), (1, 4), (2, 4), (4, 4), (8, 4))


def ring_s(data_bytes: float, ranks: int, network: Network) -> float:
    """A ring: in each of 2 (p - 1) rounds everyone sends one p-th."""
    alpha, beta = network
    return sum(alpha + data_bytes / ranks * beta for _ in range(2 * (ranks - 1)))


def hierarchical_s(
    data_bytes: float, nodes: int, ranks: int, within: Network = WITHIN, between: Network = BETWEEN
) -> float:
    """A ring in each node before and after (half of an allreduce each), and one between nodes."""
    return ring_s(data_bytes, ranks, within) + ring_s(data_bytes, nodes, between)


def halving_s(data_bytes: float, nodes: int, network: Network = BETWEEN) -> float:
    """Recursive halving and doubling over a power of two nodes of one rank."""
    alpha, beta = network
    seconds, part = 0.0, data_bytes / 2
    while nodes > 1:
        seconds, part, nodes = seconds + 2 * (alpha + part * beta), part / 2, nodes // 2
    return seconds


def hierarchical_times(
    noise: float = 0.02,
    repeats: int = 3,
    seed: int = 7,
    *,
    within: Network = WITHIN,
    between: Network = BETWEEN,
) -> list[AllreduceTime]:
    """Repeats of every size of message at every place, with relative normal scatter."""
    chance = np.random.default_rng(seed)
    return [
        AllreduceTime(size, nodes, ranks, true * float(np.exp(noise * chance.standard_normal())))
        for nodes, ranks in PLACES
        for size in MESSAGE_BYTES
        for true in [hierarchical_s(size, nodes, ranks, within, between)] * repeats
    ]


def times_of_jobs(
    job_scatter: float, jobs: int, chance: np.random.Generator
) -> list[AllreduceTime]:
    """A ring of one rank on each of 2, 4 and 8 nodes, so many jobs each, 3 % of scatter within a job."""
    return [
        AllreduceTime(
            size,
            nodes,
            1,
            ring_s(size, nodes, BETWEEN) * effect * float(np.exp(0.03 * chance.standard_normal())),
            f"nodes{nodes}-repeat{job}",
        )
        for nodes in (2, 4, 8)
        for job in range(jobs)
        for effect in [float(np.exp(job_scatter * chance.standard_normal()))]
        for size in MESSAGE_BYTES
        for _ in range(4)
    ]


def coverage_of_jobs(job_scatter: float, jobs: int, studies: int, seed: int) -> Mapping[str, float]:
    """The shares of studies whose intervals cover latency and seconds of a byte."""
    chance = np.random.default_rng(seed)
    covered: defaultdict[str, list[bool]] = defaultdict(list)
    for _ in range(studies):
        found = fit_communication(
            times_of_jobs(job_scatter, jobs, chance), {"ring": ALGORITHMS["ring"]}
        )
        assert isinstance(found, Communication) and found.between_nodes
        level = found.between_nodes
        for name, interval, true in zip(
            ("latency", "byte"), (level.latency_s, level.s_per_byte), BETWEEN, strict=True
        ):
            covered[name].append(interval.low <= true <= interval.high)
    return {name: float(np.mean(hits)) for name, hits in covered.items()}


def coverage(count: int, seed: int) -> Mapping[str, list[bool]]:
    """Whether the intervals of studies with 1 to 5 % of noise cover the truth, by parameter."""
    chance = np.random.default_rng(seed)
    covered: defaultdict[str, list[bool]] = defaultdict(list)
    for study in range(count):
        within = (float(10 ** chance.uniform(-6, -5)), float(10 ** chance.uniform(-11, -10)))
        between = (float(10 ** chance.uniform(-5, -4)), float(10 ** chance.uniform(-10, -9)))
        noise, repeats = float(chance.uniform(0.01, 0.05)), int(chance.integers(2, 6))
        times = hierarchical_times(noise, repeats, seed + study, within=within, between=between)
        found = fit_communication(times)
        assert isinstance(found, Communication)
        for name, level, truth in (
            ("within", found.within_node, within),
            ("between", found.between_nodes, between),
        ):
            assert level
            for what, interval, true in zip(
                ("latency", "byte"), (level.latency_s, level.s_per_byte), truth, strict=True
            ):
                covered[f"{what} {name}"].append(interval.low <= true <= interval.high)
    return covered

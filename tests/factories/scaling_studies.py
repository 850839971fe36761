"""Synthetic scaling studies whose laws are known, and how often intervals cover the truth."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from argosy.report.topics.laws.fits import Fit, Interval, fit
from argosy.report.topics.laws.formulas import Law

SIZES = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
BEYOND = 128.0
# The share of studies that have a parameter at 0.
AT_BOUND = 0.2


@dataclass(frozen=True)
class Study:
    """Runs of 5 to 7 sizes with 3 to 5 repeats and 1 to 5 % of noise, and the truth by name."""

    truth: Mapping[str, float]
    sizes: list[float]
    rates: list[float]


def usl(size: float, rate: float, contention: float, coherency: float) -> float:
    """Throughput by the universal scalability law."""
    return rate * size / (1 + contention * (size - 1) + coherency * size * (size - 1))


def gustafson(size: float, rate: float, serial: float) -> float:
    """Throughput by Gustafson's law."""
    return rate * (serial + (1 - serial) * size)


def studies(law: str, count: int, seed: int, shared: float = 0.0) -> Iterator[Study]:
    """Studies of `amdahl`, `gustafson` or `usl`.

    Args:
        shared: how much repeats of a size scatter together, by a node or an hour, as a multiple of how
            much they scatter apart.
    """
    chance = np.random.default_rng(seed)
    for _ in range(count):
        rate = float(10 ** chance.uniform(1, 5))
        first = _maybe_zero(chance, 0.2)
        truth = {"rate": rate, "serial fraction": first}
        if law == "usl":
            truth = {"rate": rate, "contention": first, "coherency": _maybe_zero(chance, 0.01)}
        picked = chance.choice(SIZES, chance.integers(5, 8), replace=False)
        sizes = np.repeat(np.sort(picked), chance.integers(3, 6)).tolist()
        noise = chance.uniform(0.01, 0.05)
        true_rates = [_rate(law, size, *truth.values()) for size in sizes]
        scatter = chance.standard_normal(len(sizes))
        if shared:
            scatter += shared * np.repeat(
                chance.standard_normal(picked.size), len(sizes) // picked.size
            )
        yield Study(truth, sizes, (np.array(true_rates) * np.exp(noise * scatter)).tolist())


def coverage(law: Law, count: int, seed: int, shared: float = 0.0) -> dict[str, list[bool]]:
    """Whether the interval of each study covers the truth, by parameter; ` = 0` at the bound.

    `curve` is that of the throughput at twice the largest size of all studies; `peak` counts the
    studies in which a peak was seen.
    """
    covered: defaultdict[str, list[bool]] = defaultdict(list)
    for study in studies(law.name, count, seed, shared):
        found = fit(law, study.sizes, study.rates)
        assert isinstance(found, Fit)
        for name, truth in study.truth.items():
            interval = found.at_one if name == "rate" else found.parameters[name]
            covered[name if truth else f"{name} = 0"].append(_holds(interval, truth))
        beyond = _rate(law.name, BEYOND, *study.truth.values())
        covered["curve"].append(_holds(found.at(BEYOND), beyond))
        if found.peak and study.truth["coherency"]:
            peak = ((1 - study.truth["contention"]) / study.truth["coherency"]) ** 0.5
            covered["peak"].append(_holds(found.peak, peak))
    return dict(covered)


def _maybe_zero(chance: np.random.Generator, most: float) -> float:
    return 0.0 if chance.random() < AT_BOUND else float(chance.uniform(0, most))


def _rate(law: str, size: float, rate: float, first: float, second: float = 0.0) -> float:
    return gustafson(size, rate, first) if law == "gustafson" else usl(size, rate, first, second)


def _holds(interval: Interval, truth: float) -> bool:
    return interval.low <= truth <= interval.high

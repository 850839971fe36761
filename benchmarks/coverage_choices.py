"""How often the law that is named is right, or none is named.

Truths are no law at all, a line, Amdahl's, Gustafson's and the universal law; studies have 2 to 7 sizes
and 1, 2, 3 or 5 repeats. A law is right where it is the truth, also where the report names it beside the
universal one, as "either"; a line is right where less than 5 % is lost at the largest size.
"""

import itertools

import numpy as np
from rich.table import Table
from scaling_studies import gustafson, usl

from argosy.report.topics.laws.choice import NO_LOSS, Choice, choose

STUDIES = 1000
SEED = 3
LEAST_RIGHT, MOST_WRONG = 0.95, 0.05
REPEATS = (1, 2, 3, 5)
SHARED = (0.0, 1.0)
TRUTHS = (
    ("strong", "none"),
    ("strong", "linear"),
    ("strong", "amdahl"),
    ("strong", "usl"),
    ("weak", "none"),
    ("weak", "linear"),
    ("weak", "gustafson"),
    ("weak", "usl"),
)


def measured() -> tuple[Table, dict[str, object], bool]:
    """A row for each truth, number of repeats and scatter, the figures, and whether all bars hold."""
    table = Table(
        "scaling", "truth", "repeats", "shared", "right or none", "named", "false no loss"
    )
    figures: dict[str, object] = {}
    held = True
    for (scaling, truth), repeats, shared in itertools.product(TRUTHS, REPEATS, SHARED):
        right_or_none, named, lost = _of_truth(scaling, truth, repeats, shared)
        held &= right_or_none >= LEAST_RIGHT and lost <= MOST_WRONG
        shares = [f"{share:.3f}" for share in (right_or_none, named, lost)]
        table.add_row(scaling, truth, str(repeats), str(shared), *shares)
        figures[f"{scaling} {truth}, {repeats} repeats, shared {shared:g}"] = {
            "right or none": round(right_or_none, 4),
            "named": round(named, 4),
            "false no loss": round(lost, 4),
        }
    return table, figures, held


def _of_truth(scaling: str, truth: str, repeats: int, shared: float) -> tuple[float, float, float]:
    """Shares of studies: right or nothing named, something named alone, "no loss" where there was one."""
    chance = np.random.default_rng([SEED, repeats, TRUTHS.index((scaling, truth))])
    right_or_none, named, lost = 0, 0, 0
    for number in range(STUDIES):
        sizes = 2.0 ** np.arange(2 + number % 6)
        rates = _true_rates(chance, truth, sizes)
        is_loss = bool(rates[-1] / rates[0] / sizes[-1] < NO_LOSS)
        found = choose(scaling, *_runs(chance, sizes, rates, repeats, shared))
        right_or_none += _is_right_or_none(found, truth, is_loss)
        named += found.best is not None and found.is_alone
        lost += is_loss and found.best == "linear"
    return right_or_none / STUDIES, named / STUDIES, lost / STUDIES


def _true_rates(chance: np.random.Generator, truth: str, sizes: np.ndarray) -> np.ndarray:
    share = chance.uniform(0.01, 0.2)
    if truth == "gustafson":
        return np.array([gustafson(size, 10.0, share) for size in sizes])
    contention = 0.0 if truth == "linear" else share
    coherency = 0.1 * share if truth == "usl" else 0.0
    rates = np.array([usl(size, 10.0, contention, coherency) for size in sizes])
    if truth == "none":
        rates *= np.exp(0.15 * chance.standard_normal(sizes.size))
    return rates


def _runs(
    chance: np.random.Generator, sizes: np.ndarray, rates: np.ndarray, repeats: int, shared: float
) -> tuple[list[float], list[float]]:
    """Sizes and throughputs of the runs, with 0.5 to 5 % of noise, and `shared` times that by size."""
    noise = chance.uniform(0.005, 0.05)
    together = shared * np.repeat(chance.standard_normal(sizes.size), repeats)
    scatter = noise * (chance.standard_normal(sizes.size * repeats) + together)
    return np.repeat(sizes, repeats).tolist(), (
        np.repeat(rates, repeats) * np.exp(scatter)
    ).tolist()


def _is_right_or_none(found: Choice, truth: str, is_loss: bool) -> bool:
    if found.best is None or found.best == truth:
        return True
    if found.best == "linear":
        return not is_loss
    return not found.is_alone and truth == "usl"

"""The law that a study follows is the one that is chosen."""

import numpy as np
from scaling_studies import gustafson, usl

from argosy.analysis.laws import Refused, choose

SIZES = np.repeat([1.0, 2.0, 4.0, 8.0, 16.0, 32.0], 4)


def share_of(law: str, scaling: str, rates: list[float]) -> float:
    """How often the law is chosen in 30 studies with these true rates."""
    chance = np.random.default_rng(31)
    scatter = np.exp(0.01 * chance.standard_normal((30, SIZES.size)))
    studies = (scatter * np.array(rates)).tolist()
    return float(np.mean([choose(scaling, SIZES.tolist(), one).best == law for one in studies]))


def test_strong_scaling() -> None:
    assert share_of("linear", "strong", [10 * size for size in SIZES]) > 0.8
    assert share_of("amdahl", "strong", [usl(size, 10.0, 0.05, 0) for size in SIZES]) > 0.8
    assert share_of("usl", "strong", [usl(size, 10.0, 0.05, 0.001) for size in SIZES]) > 0.9


def test_weak_scaling() -> None:
    assert share_of("gustafson", "weak", [gustafson(size, 10.0, 0.2) for size in SIZES]) > 0.9
    assert share_of("usl", "weak", [usl(size, 10.0, 0.05, 0.001) for size in SIZES]) > 0.9


def test_three_sizes_are_enough_for_the_simpler_laws() -> None:
    found = choose("strong", [1, 1, 2, 2, 4, 4], [10.0, 10.1, 18.0, 18.2, 30.0, 30.3])
    assert isinstance(found.fits["usl"], Refused)
    assert found.best == "amdahl"


def test_too_few_runs_for_a_choice() -> None:
    assert choose("strong", [1, 2], [1.0, 2.0]).best is None

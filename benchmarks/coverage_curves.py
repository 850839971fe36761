"""How often a law is named where the truth is a smooth curve that is none, as a logarithm of the size."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
from rich.table import Table

from argosy.report.topics.laws.choice import choose

STUDIES = 300
SEED = 18
REPEATS = (3, 5)
NOISES = (0.005, 0.01, 0.03)
MOST_FALSE = 0.05
SLACK = 2.5 * (0.05 * 0.95 / STUDIES) ** 0.5
"""2.5 standard errors of a share of so many studies."""

Curve = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class World:
    """A kind of scaling, the largest size as a power of two, and seconds of a step by the size."""

    name: str
    scaling: str
    doublings: int
    step_s: Curve


def _weak(log: float) -> Curve:
    return lambda sizes: 1 + log * np.log2(sizes)


def _strong(fixed: float, log: float) -> Curve:
    return lambda sizes: 1 / sizes + fixed + log * np.log2(sizes)


WORLDS = (
    World("5 % a doubling", "weak", 4, _weak(0.05)),
    World("2 % a doubling", "weak", 6, _weak(0.02)),
    World("a one-time cost of 10 %", "weak", 4, lambda sizes: 1 + 0.1 * (sizes > 1)),
    World("0.5 % a doubling", "strong", 5, _strong(0.0, 0.005)),
    World("8 % a doubling, three sizes", "strong", 2, _strong(0.0, 0.08)),
    World("fixed 2 % and 0.5 % a doubling", "strong", 5, _strong(0.02, 0.005)),
)


def measured() -> tuple[Table, dict[str, object], bool]:
    """A row for each curve, noise and number of repeats, the figures, and whether all bars hold."""
    table = Table("scaling", "a step takes", "noise", "repeats", "not contradicted", "named alone")
    figures: dict[str, object] = {}
    held = True
    for place, world in enumerate(WORLDS):
        for noise, repeats in product(NOISES, REPEATS):
            chance = np.random.default_rng([SEED, place, repeats, round(1000 * noise)])
            found = [_study(world, noise, repeats, chance) for _ in range(STUDIES)]
            said, alone = (float(np.mean(column)) for column in zip(*found, strict=True))
            is_held = alone <= MOST_FALSE + SLACK
            held &= is_held
            name = world.name + ("" if is_held else " missed")
            shares = (f"{said:.3f}", f"{alone:.3f}")
            table.add_row(world.scaling, name, f"{noise:.1%}", str(repeats), *shares)
            figures[f"{world.scaling}, {world.name}, noise {noise:g}, repeats {repeats}"] = {
                "not contradicted": round(said, 4),
                "named alone": round(alone, 4),
            }
    return table, figures, held


def _study(
    world: World, noise: float, repeats: int, chance: np.random.Generator
) -> tuple[bool, bool]:
    """Whether a law is said not to be contradicted, and whether it alone is."""
    sizes = np.repeat(2.0 ** np.arange(world.doublings + 1), repeats)
    rates = np.exp(noise * chance.standard_normal(sizes.size)) / world.step_s(sizes)
    if world.scaling == "weak":
        rates *= sizes
    found = choose(world.scaling, sizes.tolist(), rates.tolist())
    return found.best is not None, found.best is not None and found.is_alone

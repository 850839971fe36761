"""How often speed-ups cover the truth where sizes ran on other days, at other hours, or by turns."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from rich.table import Table

from argosy.report.runs.measurements import Measurement, Point
from argosy.report.runs.scaling import scaling

STUDIES = 300
SEED = 16
SCATTER = 0.02
"""Of runs."""
DIFFERENT = 0.05
"""Standard deviation of a machine's speed by the day or the hour; its amplitude where it swings."""
DAY_S, HOUR_S, RUN_S = 86400.0, 3600.0, 300.0
LEAST, MOST = 0.93, 0.97
SLACK = 2.5 * (0.05 * 0.95 / STUDIES) ** 0.5
"""2.5 standard errors of a share of so many studies."""

Speed = Callable[[np.random.Generator], Callable[[float], float]]
"""Draws the logarithm of a machine's speed by the time in seconds."""
Starts = Sequence[float]


def stepwise(length_s: float) -> Speed:
    """The speed differs from each day, hour, … to the next."""

    def drawn(chance: np.random.Generator) -> Callable[[float], float]:
        levels = DIFFERENT * chance.standard_normal(200)
        return lambda at_s: float(levels[int(at_s // length_s)])

    return drawn


def swinging(chance: np.random.Generator) -> Callable[[float], float]:
    """The speed goes up and down in a day."""
    phase = chance.uniform(0, 2 * math.pi)
    return lambda at_s: DIFFERENT * math.sin(2 * math.pi * at_s / DAY_S + phase)


@dataclass(frozen=True)
class World:
    """When the runs of the smaller and of the larger size start, in seconds.

    Where sizes took `turns`, the interval has to stay; it may be too wide, since what hours have in
    common counts as scatter then.
    """

    name: str
    speed: Speed
    base: Starts
    large: Starts
    turns: bool = False


def _worlds() -> list[World]:
    days, hours = stepwise(DAY_S), stepwise(HOUR_S)
    worlds = []
    for runs in (3, 5, 10):
        row = [RUN_S * place for place in range(runs)]
        after = [RUN_S * runs + at for at in row]
        tomorrow = [DAY_S + at for at in row]
        apart = [3 * HOUR_S + at for at in row]
        by_day = [DAY_S * place for place in range(runs)]
        by_hour = [HOUR_S * place for place in range(runs)]
        worlds += [
            World(f"the next day, n = {runs}", days, row, tomorrow),
            World(f"the next day, one of both again, n = {runs}", days, [*row, DAY_S], tomorrow),
            World(f"3 hours later, n = {runs}", hours, row, apart),
            World(f"3 hours later, one of both again, n = {runs}", hours, [*row, apart[0]], apart),
            World(f"one after the other, the speed swings, n = {runs}", swinging, row, after),
            World(f"by turns, a turn a day, n = {runs}", days, by_day, _later(by_day), turns=True),
            World(f"by turns, a turn an hour, n = {runs}", hours, by_hour, _later(by_hour), True),
            World(
                f"by turns in a row, n = {runs}", hours, _spread(row), _later(_spread(row)), True
            ),
        ]
    return worlds


def _later(starts_s: Starts) -> Starts:
    return [at + RUN_S for at in starts_s]


def _spread(starts_s: Starts) -> Starts:
    return [2 * at for at in starts_s]


def measured() -> tuple[Table, dict[str, object], bool]:
    """A row for each world, the figures, and whether all bars hold."""
    table = Table("the larger size ran", "speed-ups with an interval", "covered")
    figures: dict[str, object] = {}
    held = True
    for place, world in enumerate(_worlds()):
        chance = np.random.default_rng([SEED, place])
        found = [_covered(world, chance) for _ in range(STUDIES)]
        known = [one for one in found if one is not None]
        share, covered = len(known) / STUDIES, float(np.mean(known)) if known else None
        is_held = share == 1 if world.turns else True
        if covered is not None:
            is_held &= LEAST - SLACK <= covered <= (1 if world.turns else MOST + SLACK)
        held &= is_held
        said = "none" if covered is None else f"{covered:.3f}"
        table.add_row(world.name + ("" if is_held else " missed"), f"{share:.3f}", said)
        figures[world.name] = {"with an interval": round(share, 3), "covered": covered}
    return table, figures, held


def _covered(world: World, chance: np.random.Generator) -> bool | None:
    """Whether the interval of a true speed-up of 2 covers it; None where there is none."""
    speed = world.speed(chance)
    runs = [
        Measurement(
            "e",
            f"{nodes}-{repeat}",
            "weak",
            Point(nodes, nodes, 1),
            nodes * math.exp(speed(at_s) + SCATTER * chance.standard_normal()),
            repeat=repeat,
            started_unix_s=1e9 + at_s,
        )
        for nodes, starts_s in ((1, world.base), (2, world.large))
        for repeat, at_s in enumerate(starts_s, 1)
    ]
    found = scaling(runs)[1].speed_up
    if found.low is None or found.high is None:
        return None
    return found.low <= 2 <= found.high

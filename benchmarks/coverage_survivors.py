"""How often intervals cover the truth where the slowest runs of a size ended without a result."""

from collections.abc import Iterator

import numpy as np
from rich.table import Table

from argosy.report.runs.measurements import Measurement, Point
from argosy.report.runs.scaling import scaling

STUDIES = 300
SEED = 17
SCATTER = 0.1
"""Of runs."""
LOST = ((5, 3), (5, 1), (6, 1), (10, 1), (30, 1), (60, 1))
"""Runs of a size, and those of them that are lost."""
LEAST, MOST = 0.93, 0.97
SLACK = 2.5 * (0.05 * 0.95 / STUDIES) ** 0.5
"""2.5 standard errors of a share of so many studies."""


def measured() -> tuple[Table, dict[str, object], bool]:
    """A row for each number of lost runs, the figures, and whether all bars hold."""
    table = Table("runs lost", "at the", "throughput covered", "speed-up covered")
    figures: dict[str, object] = {}
    held = True
    for runs, lost in LOST:
        for nodes, name in ((1, "smaller size"), (2, "larger size")):
            chance = np.random.default_rng([SEED, runs, lost, nodes])
            found = [tuple(_covered(runs, lost, nodes, chance)) for _ in range(STUDIES)]
            shares = [_share(column) for column in zip(*found, strict=True)]
            is_held = all(
                share is None or LEAST - SLACK <= share <= MOST + SLACK for share in shares
            )
            held &= is_held
            said = ["none" if share is None else f"{share:.3f}" for share in shares]
            table.add_row(f"{lost} of {runs}", name + ("" if is_held else " missed"), *said)
            figures[f"{lost} of {runs} at the {name}"] = {
                "throughput": shares[0],
                "speed-up": shares[1],
                "held": is_held,
            }
    return table, figures, held


def _covered(runs: int, lost: int, at: int, chance: np.random.Generator) -> Iterator[bool | None]:
    """Yield whether the interval of the size `at`, and that of the speed-up, covers what is true."""
    of_sizes = []
    for nodes in (1, 2):
        rates = np.sort(nodes * np.exp(SCATTER * chance.standard_normal(runs)))
        kept = rates[lost if nodes == at else 0 :]
        point = Point(nodes, nodes, 1)
        share = lost / runs if nodes == at else 0.0
        of_sizes += [
            Measurement("e", f"{rate}", "weak", point, rate, lost=share) for rate in kept.tolist()
        ]
    found = scaling(of_sizes)
    for one, truth in ((found[at - 1].throughput, at), (found[1].speed_up, 2)):
        known = one.low is not None and one.high is not None
        yield one.low <= truth <= one.high if known else None


def _share(held: tuple[bool | None, ...]) -> float | None:
    known = [one for one in held if one is not None]
    return round(float(np.mean(known)), 3) if known else None

"""How often slow ranks are named that are none, how often true ones are found, and by what ratio."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from rich.table import Table
from ugly_studies import Ugliness, rank_times

from argosy.report.runs.stragglers import stragglers

RUNS = 400
RANKS = 16
STEPS = 300
SEED = 6
MOST_FALSE = 0.05
LEAST_FOUND = 0.75
BIAS = 0.005
SLOWER = 1.05
SAMPLING = 2.5
"""Standard errors by which a share of so many runs may lie beyond its bar by chance."""
TOO_ALIKE = 0.9
"""In 300 steps that are so much alike, with 5 % of scatter, nobody can tell 5 % from chance."""


@dataclass(frozen=True)
class Cell:
    """Shares of runs in which the slow rank, and any other, was named; the mean ratio of those found."""

    found: float
    others: float
    ratio: float
    covered: float


def measured() -> tuple[Table, dict[str, object], bool]:
    """A row for each kind of run, the figures, and whether all bars hold."""
    table = Table("ranks", "slow rank", "found", "others named", "ratio", "covered")
    figures: dict[str, object] = {}
    held = True
    for place, (name, kind, can_be_found) in enumerate(_kinds()):
        cell = _cell(kind, np.random.default_rng([SEED, place]))
        is_slow = kind.straggler > 1 and not kind.takes_turns
        most = MOST_FALSE + SAMPLING * (MOST_FALSE / RUNS) ** 0.5
        is_held = cell.others <= most
        if is_slow and can_be_found:
            is_held &= cell.found >= LEAST_FOUND - SAMPLING * (0.2 / RUNS) ** 0.5
            is_held &= abs(cell.ratio / kind.straggler - 1) <= BIAS
        held &= is_held
        table.add_row(
            name + ("" if is_held else " missed"),
            f"{kind.straggler:.2f}" if is_slow else "none",
            f"{cell.found:.2f}" if is_slow else "",
            f"{cell.others:.3f}",
            f"{cell.ratio:.3f}" if is_slow else "",
            f"{cell.covered:.2f}" if is_slow else "",
        )
        figures[f"{name} {kind.straggler if is_slow else 'none'}"] = {
            "found": round(cell.found, 3),
            "others": round(cell.others, 4),
            "ratio": round(cell.ratio, 4),
            "covered": round(cell.covered, 3),
            "held": is_held,
        }
    return table, figures, held


def _kinds() -> Iterator[tuple[str, Ugliness, bool]]:
    for scatter, alike in product((0.02, 0.05), (0.0, 0.5, 0.9, 0.95)):
        name = f"scatter {scatter}, autocorrelation {alike}"
        can_be_found = scatter < 0.05 or alike < TOO_ALIKE
        for slower in (1.0, SLOWER):
            yield (
                name,
                Ugliness(scatter=scatter, autocorrelation=alike, straggler=slower),
                can_be_found,
            )
    for scatter in (0.02, 0.05):
        name = f"scatter {scatter}, autocorrelation 0.98"
        yield name, Ugliness(scatter=scatter, autocorrelation=0.98), False
    yield "uneven shards", Ugliness(epoch_scatter=0.04), False
    yield "heavy tails", Ugliness(heavy_tails=True), False
    yield "heavy tails", Ugliness(heavy_tails=True, straggler=SLOWER), True
    yield "slow saves", Ugliness(slow_saves=True), False
    yield "a burst of all", Ugliness(burst=True, straggler=SLOWER), True
    yield "slow ones take turns", Ugliness(straggler=1.5, takes_turns=True), False


def _cell(kind: Ugliness, chance: np.random.Generator) -> Cell:
    found, others, ratios, covered = 0, 0, [], 0
    for _ in range(RUNS):
        [own_work_s] = rank_times(kind, 1, STEPS, RANKS, chance)
        named = stragglers(own_work_s, range(RANKS))
        is_slow = kind.straggler > 1 and not kind.takes_turns
        true = [one for one in named if is_slow and one.rank == RANKS - 1]
        others += len(named) > len(true)
        for one in true:
            found += 1
            ratios.append(one.ratio.mean)
            assert one.ratio.low is not None and one.ratio.high is not None
            covered += one.ratio.low <= kind.straggler <= one.ratio.high
    mean = float(np.mean(ratios)) if ratios else float("nan")
    return Cell(found / RUNS, others / RUNS, mean, covered / found if found else float("nan"))

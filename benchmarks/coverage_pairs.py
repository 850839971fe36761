"""How often the interval of a speed-up covers the truth, with and without an effect of blocks of runs.

Two sizes have the same repeats, which were blocks in time; the larger size scatters more.
"""

import numpy as np
from rich.table import Table

from argosy.report.runs.measurements import Measurement, Point
from argosy.report.runs.scaling import scaling
from argosy.report.statistics.estimates import ratio_estimate

STUDIES = 2000
COUNTS = (3, 5, 6, 8, 10)
BLOCKS = (0.0, 0.02, 0.05, 0.1)
"""Standard deviations of what the runs of a block have in common."""
SCATTER = (0.02, 0.03)
"""Of single runs, at the base and at the larger size."""
LEAST, MOST = 0.93, 0.97
WIDEST = 1.1
"""Times Welch's interval, where blocks have nothing in common."""
SEED = 11
SAMPLING = 2.5
"""Standard errors of a share of so many studies that a figure may lie beyond its bar by chance."""


def measured() -> tuple[Table, dict[str, object], bool]:
    """A row for each number of repeats and effect of blocks, the figures, and whether all bars hold."""
    table = Table("blocks", "n", "method", "covered", "width / Welch's")
    figures: dict[str, object] = {}
    held = True
    for block in BLOCKS:
        for count in COUNTS:
            covered, width, is_paired = cell(block, count, STUDIES)
            slack = SAMPLING * (LEAST * (1 - LEAST) / STUDIES) ** 0.5
            # Welch's interval takes what blocks have in common for scatter, and covers more than it says.
            most = 1.0 if block and not is_paired else MOST + slack
            is_held = LEAST - slack <= covered <= most and (block > 0 or width <= WIDEST)
            held &= is_held
            method = "pairs" if is_paired else "Welch"
            said = "" if is_held else " missed"
            name = f"{block:.0%}{said}"
            table.add_row(name, str(count), method, f"{covered:.3f}", f"{width:.2f}")
            figures[f"blocks {block:.0%} n {count}"] = {
                "method": method,
                "covered": round(covered, 3),
                "width": round(width, 3),
            }
    return table, figures, held


def cell(block: float, count: int, studies: int) -> tuple[float, float, bool]:
    """The share of studies whose interval covers, its mean width over Welch's, and whether it is paired."""
    chance = np.random.default_rng([SEED, count, round(1000 * block)])
    hits, widths, welch = [], 0.0, 0.0
    is_paired = False
    for _ in range(studies):
        common = block * chance.standard_normal(count)
        logs = [common + sd * chance.standard_normal(count) for sd in SCATTER]
        base, large = (np.exp(one).tolist() for one in logs)
        found = scaling([*_runs(1, base), *_runs(2, large)])[1]
        independent = ratio_estimate(large, base)
        speed_up, is_paired = found.speed_up, found.is_paired
        assert speed_up.low and speed_up.high and independent.low and independent.high
        hits.append(speed_up.low <= 1 <= speed_up.high)
        widths += np.log(speed_up.high / speed_up.low)
        welch += np.log(independent.high / independent.low)
    return float(np.mean(hits)), float(widths / welch), is_paired


def _runs(nodes: int, rates: list[float]) -> list[Measurement]:
    point = Point(nodes, nodes, 1)
    return [
        Measurement(
            "e", f"{nodes}-{repeat}", "strong", point, rate, repeat=repeat, started_unix_s=place
        )
        for repeat, rate in enumerate(rates, 1)
        for place in [100.0 * repeat + nodes]
    ]

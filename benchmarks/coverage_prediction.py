"""How often intervals of a prediction cover a run to come and the true efficiency.

The network in training is as fast as alone, or several times as slow; allreduces are of jobs that differ.
"""

import math
from itertools import product

import numpy as np
from predicted_studies import Predicted, predicted_study
from rich.table import Table

STUDIES = 300
SEED = 7
NOISES = (0.01, 0.05, 0.1, 0.2)
RUNS = (2, 3, 5)
SLOWER = (1.0, 2.0, 5.0)
SIZES = (4, 16)
LEAST, MOST = 0.93, 0.97
SAMPLING = 2.5
"""Standard errors by which a share of so many studies may lie beyond its bar by chance."""


def measured() -> tuple[Table, dict[str, object], bool]:
    """A row for each network, noise and number of runs, the figures, and whether all bars hold."""
    steps = [f"step on {size}" for size in SIZES]
    efficiencies = [f"efficiency on {size}" for size in SIZES]
    head = ("runs scatter by", "runs a size", "network slower")
    table = Table(*head, *steps, *efficiencies, "width")
    figures: dict[str, object] = {}
    held = True
    for slower, noise, runs in product(SLOWER, NOISES, RUNS):
        chance = np.random.default_rng([SEED, round(1000 * noise), runs])
        found = [predicted_study(noise, runs, slower, SIZES, chance) for _ in range(STUDIES)]
        covered = [float(np.mean([one.steps[size] for one in found])) for size in SIZES]
        efficient = [float(np.mean([one.efficiencies[size] for one in found])) for size in SIZES]
        is_held = _holds(covered, efficient)
        held &= is_held
        width = float(np.median([_width(one) for one in found]))
        name = f"{100 * noise:.0f} %" + ("" if is_held else " missed")
        told = [f"{share:.3f}" for share in (*covered, *efficient)]
        table.add_row(name, str(runs), f"{slower:g} times", *told, f"{width:.2f}")
        figures[f"{noise} {runs} {slower:g}"] = {
            "covered": [round(share, 3) for share in covered],
            "efficiency": [round(share, 3) for share in efficient],
            "width": round(width, 3),
            "held": is_held,
        }
    return table, figures, held


def _holds(covered: list[float], efficient: list[float]) -> bool:
    """Efficiencies may be covered more often: no draw has a network that is faster than alone."""
    slack = SAMPLING * math.sqrt(0.05 * 0.95 / STUDIES)
    low, high = LEAST - slack, MOST + slack
    return all(low <= share <= high for share in covered) and min(efficient) >= low


def _width(found: Predicted) -> float:
    step = found.steps_s[SIZES[0]]
    assert step.low is not None and step.high is not None
    return (step.high - step.low) / step.mean

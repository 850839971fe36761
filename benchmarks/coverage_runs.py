"""How often the interval of a size's throughput covers the truth, over ugly runs."""

from dataclasses import dataclass, fields

import numpy as np
from rich.table import Table
from ugly_studies import (
    KIND_WARM_UPS,
    SAMPLES,
    Ugliness,
    product,
    step_times,
    true_log_rate,
)

from argosy.report.runs.warmup import warm_up
from argosy.report.statistics.estimates import geometric_mean_estimate

RUNS = 1500
STEPS = 200
COUNTS = (2, 3, 5, 10)
SEED = 5
LEAST, MOST = 0.93, 0.97
MOST_REFUSED = 0.1
SAMPLING = 2.5
"""Standard errors of a share of so many studies that a figure may lie beyond its bar by chance."""


@dataclass(frozen=True)
class Cell:
    """Shares of studies by the number of runs: `covered` of those that have an interval."""

    covered: dict[int, float]
    studies: dict[int, int]
    refused: float
    bias: float


def measured() -> tuple[Table, dict[str, object], bool]:
    """A row for each kind of run, the figures, and whether all bars hold."""
    counts = [f"n = {n}" for n in COUNTS]
    table = Table("runs", *counts, "runs refused", "bias")
    figures: dict[str, object] = {}
    held = True
    for place, kind in enumerate(product()):
        cell = _cell(kind, np.random.default_rng([SEED, place]))
        is_held = _holds(kind, cell)
        held &= is_held
        name = _name(kind)
        covered = [f"{cell.covered[n]:.3f}" if n in cell.covered else "none" for n in COUNTS]
        said = "" if is_held else " missed"
        table.add_row(name + said, *covered, f"{cell.refused:.2f}", f"{100 * cell.bias:+.2f} %")
        figures[name] = {
            "covered": {n: round(share, 3) for n, share in cell.covered.items()},
            "refused": round(cell.refused, 3),
            "bias": round(cell.bias, 4),
            "held": is_held,
        }
    return table, figures, held


def _cell(kind: Ugliness, chance: np.random.Generator) -> Cell:
    truth = true_log_rate(kind, STEPS, chance)
    rates = np.array([_rate(run) for run in step_times(kind, RUNS, STEPS, chance)])
    known = np.isfinite(rates)
    covered, studies = {}, {}
    for count in COUNTS:
        hits = []
        for group in rates[: RUNS // count * count].reshape(-1, count):
            counted = group[np.isfinite(group)]
            if counted.size >= 2:
                found = geometric_mean_estimate(counted.tolist())
                assert found.low is not None and found.high is not None
                hits.append(found.low <= np.exp(truth) <= found.high)
        if len(hits) >= RUNS / count / 10:
            covered[count], studies[count] = float(np.mean(hits)), len(hits)
    bias = float(np.exp(np.log(rates[known]).mean() - truth) - 1) if known.any() else 0.0
    return Cell(covered, studies, 1 - float(known.mean()), bias)


def _rate(seconds: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    found = warm_up(seconds)
    if found.left_out:
        return float("nan")
    return float(SAMPLES * found.excess / seconds[found.steps :].mean())


def _holds(kind: Ugliness, cell: Cell) -> bool:
    if _is_kind(kind) and cell.refused > MOST_REFUSED:
        return False
    slack = {n: SAMPLING * (0.05 * 0.95 / studies) ** 0.5 for n, studies in cell.studies.items()}
    return all(LEAST - slack[n] <= share <= MOST + slack[n] for n, share in cell.covered.items())


def _is_kind(kind: Ugliness) -> bool:
    return kind.warm_up in KIND_WARM_UPS and kind.autocorrelation < 0.9 and not kind.slow_jobs


def _name(kind: Ugliness) -> str:
    plain = Ugliness()
    told = [
        f"{field.name.replace('_', ' ')} {getattr(kind, field.name)}"
        for field in fields(kind)
        if field.name != "warm_up" and getattr(kind, field.name) != getattr(plain, field.name)
    ]
    return ", ".join([kind.warm_up, *told])

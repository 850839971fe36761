"""How often intervals cover the steady state of runs that jobs have continued: each job starts cold."""

import numpy as np
from rich.table import Table
from ugly_studies import SAMPLES, WARM_UPS, Ugliness, Vector, step_times, true_log_rate

from argosy.report.runs.measurements import Measurement, Point
from argosy.report.runs.scaling import scaling
from argosy.report.runs.warmup import of_pieces

STUDIES = 300
SEED = 13
STEPS = 70
"""Of each job."""
RUNS = (3, 5)
CELLS = (
    ("15 steps of 3 times", 0.0, 1),
    ("15 steps of 3 times", 0.0, 2),
    ("15 steps of 3 times", 0.0, 3),
    ("15 steps of 3 times", 0.5, 2),
    ("step at 10 %", 0.0, 2),
    ("exponential 5 %", 0.0, 2),
)
"""How each job starts, how alike neighbouring steps are, and how often another job goes on with the run.

Runs of the larger size are of one job."""
LEAST, MOST = 0.93, 0.97
SLACK = 2.5 * (0.05 * 0.95 / STUDIES) ** 0.5
"""2.5 standard errors of a share of so many studies."""
MOST_REFUSED = 0.1


def measured() -> tuple[Table, dict[str, object], bool]:
    """A row for each cold start and number of jobs, the figures, and whether all bars hold."""
    shares = [f"{what}, n = {n}" for n in RUNS for what in ("throughput", "speed-up")]
    table = Table("cold start", "alike", "continued", *shares, "runs refused", "bias")
    figures: dict[str, object] = {}
    held = True
    for cold, alike, continued in CELLS:
        kind = Ugliness(autocorrelation=alike)
        chance = np.random.default_rng([SEED, continued, round(10 * alike), len(cold)])
        rates = _rates(kind, cold, continued + 1, chance), _rates(kind, cold, 1, chance)
        truth = true_log_rate(kind, STEPS, chance)
        covered = [share for n in RUNS for share in _covered(rates, n, truth)]
        refused = float(np.isnan(rates[0]).mean())
        is_held = refused <= MOST_REFUSED and all(
            LEAST - SLACK <= share <= MOST + SLACK for share in covered
        )
        held &= is_held
        bias = float(np.exp(np.nanmean(np.log(rates[0])) - truth) - 1)
        said = [f"{share:.3f}" for share in covered]
        row = (cold, f"{alike:g}", f"{continued} times" + ("" if is_held else " missed"))
        table.add_row(*row, *said, f"{refused:.3f}", f"{bias:+.2%}")
        figures[f"{cold}, alike {alike:g}, continued {continued}"] = {
            "covered": [round(share, 3) for share in covered],
            "refused": round(refused, 3),
            "bias": round(bias, 4),
            "held": is_held,
        }
    return table, figures, held


def _rates(kind: Ugliness, cold: str, jobs: int, chance: np.random.Generator) -> Vector:
    """Throughputs of runs of so many jobs, of shape (studies, runs); NaN where a run has none."""
    begins = [STEPS * job for job in range(1, jobs)]
    seconds = step_times(kind, STUDIES * max(RUNS), STEPS * jobs, chance)
    seconds *= np.tile(_start(cold), jobs)
    return np.array([_rate(run, begins) for run in seconds]).reshape(STUDIES, -1)


def _start(cold: str) -> Vector:
    """By how many times longer each step of a job takes."""
    if cold in WARM_UPS:
        return WARM_UPS[cold](STEPS)
    return np.where(np.arange(STEPS) < 15, 3.0, 1.0)


def _rate(run: Vector, begins: list[int]) -> float:
    """Samples over seconds of all jobs' steady states, as the report has them."""
    parts = zip(np.split(run, begins), of_pieces(run, begins), strict=True)
    kept = [part[found.steps :] / found.excess for part, found in parts if not found.left_out]
    return SAMPLES / float(np.concatenate(kept).mean()) if kept else float("nan")


def _covered(rates: tuple[Vector, Vector], count: int, truth: float) -> tuple[float, float]:
    """Shares of studies whose intervals cover the continued size's throughput, and the speed-up of 2."""
    throughputs, speed_ups = [], []
    for base, large in zip(*rates, strict=True):
        found = scaling([*_runs(1, base[:count]), *_runs(2, 2 * large[:count])])
        if len(found) < 2:
            continue
        throughput, speed_up = found[0].throughput, found[1].speed_up
        if throughput.low is not None and throughput.high is not None:
            throughputs.append(throughput.low <= np.exp(truth) <= throughput.high)
        if speed_up.low is not None and speed_up.high is not None:
            speed_ups.append(speed_up.low <= 2 <= speed_up.high)
    return float(np.mean(throughputs)), float(np.mean(speed_ups))


def _runs(nodes: int, rates: Vector) -> list[Measurement]:
    point = Point(nodes, nodes, 1)
    return [
        Measurement("e", f"{nodes}-{place}", "weak", point, rate if np.isfinite(rate) else None)
        for place, rate in enumerate(rates.tolist())
    ]

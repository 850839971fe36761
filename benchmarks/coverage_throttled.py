"""How often runs that become 1.25 times slower are told, others falsely, and what their speed-ups say.

The smaller size is throttled somewhere between a fifth and four fifths of its runs, the larger one never.
"""

from collections.abc import Mapping

import numpy as np
from rich.table import Table
from ugly_studies import SAMPLES, Ugliness, Vector, step_times

from argosy.report.runs.measurements import Measurement, Point
from argosy.report.runs.scaling import scaling
from argosy.report.runs.warmup import WarmUp, warm_up

STUDIES = 300
RUNS = 3
SEED = 14
STEPS = 200
SLOWER = 1.25
KINDS: Mapping[str, Ugliness] = {
    f"scatter {scatter:g}, alike {alike:g}": Ugliness(scatter=scatter, autocorrelation=alike)
    for scatter in (0.02, 0.05)
    for alike in (0.0, 0.5, 0.9)
} | {
    "heavy tails": Ugliness(heavy_tails=True),
    "slow saves": Ugliness(slow_saves=True),
    "a slow start of 10 %": Ugliness(warm_up="step at 10 %"),
}
LEAST_TOLD, MOST_FALSE = 0.95, 0.05
LEAST, MOST = 0.93, 0.97
OF_RUNS = 2.5 * (0.05 * 0.95 / STUDIES / RUNS) ** 0.5
OF_STUDIES = 2.5 * (0.05 * 0.95 / STUDIES) ** 0.5
"""2.5 standard errors of a share of so many runs, or studies."""


def measured() -> tuple[Table, dict[str, object], bool]:
    """A row for each kind of run, the figures, and whether all bars hold."""
    head = ("steps", "told", "falsely told", "ratio", "off by steps")
    table = Table(*head, "speed-ups with an interval", "covered")
    figures: dict[str, object] = {}
    held = True
    for place, (name, kind) in enumerate(KINDS.items()):
        chance = np.random.default_rng([SEED, place])
        throttled, steady = (step_times(kind, STUDIES * RUNS, STEPS, chance) for _ in range(2))
        begins = chance.integers(STEPS // 5, STEPS * 4 // 5, STUDIES * RUNS)
        throttled *= np.where(np.arange(STEPS) >= begins[:, None], SLOWER, 1.0)
        slow, others = ([warm_up(run) for run in runs] for runs in (throttled, steady))
        told = [(one, at) for one, at in zip(slow, begins, strict=True) if one.slower_from]
        falsely = float(np.mean([one.slower_from is not None for one in others]))
        covered = _covered(_runs(1, throttled, slow), _runs(2, steady, others))
        is_held = (
            len(told) / len(slow) >= LEAST_TOLD - OF_RUNS
            and falsely <= MOST_FALSE + OF_RUNS
            and (not covered or LEAST - OF_STUDIES <= np.mean(covered) <= MOST + OF_STUDIES)
        )
        held &= bool(is_held)
        found = {
            "told": len(told) / len(slow),
            "falsely told": falsely,
            "ratio": float(np.median([one.slower for one, _ in told])),
            "off by": float(np.median([abs((one.slower_from or 0) - at) for one, at in told])),
            "with an interval": len(covered) / STUDIES,
            "covered": float(np.mean(covered)) if covered else None,
        }
        said = ["none" if value is None else f"{value:.3f}" for value in found.values()]
        table.add_row(name + ("" if is_held else " missed"), *said)
        figures[name] = found | {"held": bool(is_held)}
    return table, figures, held


def _runs(nodes: int, step_s: Vector, found: list[WarmUp]) -> list[Measurement]:
    """The runs of all studies, one after the other."""
    point = Point(nodes, nodes, 1)
    return [
        Measurement(
            "e",
            f"{nodes}-{place}",
            "weak",
            point,
            None if of.left_out else nodes * SAMPLES * of.excess / float(run[of.steps :].mean()),
            warm_up=of,
        )
        for place, (run, of) in enumerate(zip(step_s, found, strict=True))
    ]


def _covered(base: list[Measurement], large: list[Measurement]) -> list[bool]:
    """Whether each speed-up that has an interval covers that of runs which nothing slows down."""
    found = []
    for begin in range(0, len(base), RUNS):
        points = scaling([*base[begin : begin + RUNS], *large[begin : begin + RUNS]])
        speed_up = points[-1].speed_up
        if len(points) == 2 and speed_up.low is not None and speed_up.high is not None:
            found.append(speed_up.low <= 2 <= speed_up.high)
    return found

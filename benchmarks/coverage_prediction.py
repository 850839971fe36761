"""How often the predictive interval covers the step of a run to come, on four nodes and on sixteen."""

import math

import numpy as np
from allreduce_times import hierarchical_s, hierarchical_times
from rich.table import Table

from argosy.analysis.laws import Refused
from argosy.analysis.prediction import (
    Calibration,
    Communication,
    Horovod,
    Model,
    Scatter,
    Training,
    calibrate,
    fit_communication,
    predict,
    split_layers,
)
from argosy.analysis.statistics import ratio_estimate

STUDIES = 300
SEED = 7
NOISES = (0.01, 0.05, 0.1, 0.2)
RUNS = (2, 3, 5)
SIZES = (4, 16)
LEAST, MOST = 0.93, 0.97
SAMPLING = 2.5
"""Standard errors by which a share of so many studies may lie beyond its bar by chance."""

PARAMETERS_BYTES = 1e8
OWN_S = 0.33
MODEL = Model(
    split_layers({f"layer{number}": PARAMETERS_BYTES / 10 for number in range(10)}, 0.2),
    forward_s=0.1,
    update_s=0.01,
    data_s=0.02,
    samples=64,
)


def measured() -> tuple[Table, dict[str, object], bool]:
    """A row for each noise and number of runs, the figures, and whether all bars hold."""
    table = Table(
        "runs scatter by", "runs a size", *(f"on {size} nodes" for size in SIZES), "width"
    )
    figures: dict[str, object] = {}
    held = True
    slack = SAMPLING * math.sqrt(0.05 * 0.95 / STUDIES)
    for noise in NOISES:
        for runs in RUNS:
            chance = np.random.default_rng([SEED, round(1000 * noise), runs])
            studies = [_study(noise, runs, chance) for _ in range(STUDIES)]
            covered = [sum(study[place][0] for study in studies) / STUDIES for place in (0, 1)]
            width = float(np.median([study[0][1] for study in studies]))
            is_held = all(LEAST - slack <= share <= MOST + slack for share in covered)
            held &= is_held
            told = [f"{share:.3f}" for share in covered]
            name = f"{100 * noise:.0f} %" + ("" if is_held else " missed")
            table.add_row(name, str(runs), *told, f"{width:.2f}")
            figures[f"{noise} {runs}"] = {
                "covered": [round(share, 3) for share in covered],
                "width": round(width, 3),
                "held": is_held,
            }
    return table, figures, held


def _study(noise: float, runs: int, chance: np.random.Generator) -> list[tuple[bool, float]]:
    """Whether the interval of each size covers a run's step, and its width over the estimate."""
    found = fit_communication(hierarchical_times(0.03, 2, int(chance.integers(1 << 30))))
    assert isinstance(found, Communication)
    training = Training(MODEL, found, 4, "weak", Horovod(0.2, math.inf))
    steps = {
        nodes: (_true_s(nodes) * np.exp(noise * chance.standard_normal(runs))).tolist()
        for nodes in (1, 2)
    }
    ratio = ratio_estimate(steps[1], steps[2])
    assert ratio.high is not None
    calibrated = calibrate(
        training,
        {nodes: float(np.exp(np.mean(np.log(each)))) for nodes, each in steps.items()},
        math.log(ratio.high / ratio.mean),
    )
    assert isinstance(calibrated, Calibration)
    predictions = predict(
        calibrated.training, [1, *SIZES], 1e6, scatter=Scatter.of([*steps.values()])
    )
    assert not isinstance(predictions, Refused)
    hits = []
    for one in predictions[1:]:
        to_come = _true_s(one.nodes) * math.exp(noise * chance.standard_normal())
        width = (one.step_s.high - one.step_s.low) / one.step_s.value
        hits.append((one.step_s.low <= to_come <= one.step_s.high, width))
    return hits


def _true_s(nodes: int) -> float:
    """One message of all parameters after the backward pass, and a negotiation."""
    return OWN_S + hierarchical_s(PARAMETERS_BYTES, nodes, 4) + hierarchical_s(0, nodes, 4) / 2

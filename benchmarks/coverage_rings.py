"""How often predictions cover trainings on networks that are simulated message by message.

Predicted from steps on one node and two, and from allreduces on two and four.
"""

import numpy as np
from rich.table import Table
from simulated_rings import WORLDS, World, known_training_of, run_s, true_step_s

from argosy.report.statistics.estimates import Estimate
from argosy.report.topics.laws.fits import Refused
from argosy.report.topics.prediction.answers import Question, prediction_summary

STUDIES = 300
SEED = 11
SCATTER = 0.01
SIZES = (4, 8, 16)
LEAST, SAMPLING = 0.93, 0.0315
"""Least share that is covered; 2.5 standard errors of a share of so many studies."""


def measured() -> tuple[Table, dict[str, object], bool]:
    """A row for each network and size, the figures, and whether none that has an interval is missed."""
    table = Table("network", "nodes", "error of the step", "run to come", "efficiency")
    figures: dict[str, object] = {}
    held = True
    for name, world in WORLDS.items():
        truth = {nodes: true_step_s(world, nodes) for nodes in (1, *SIZES)}
        chance = np.random.default_rng([SEED, len(name)])
        found = [_study(world, truth, chance) for _ in range(STUDIES)]
        for nodes in SIZES:
            errors, steps, efficiencies = zip(*(one[nodes] for one in found), strict=True)
            shares = [_share(each) for each in (steps, efficiencies)]
            held &= all(share is None or share >= LEAST - SAMPLING for share in shares)
            said = ["no interval" if share is None else f"{share:.3f}" for share in shares]
            table.add_row(name, str(nodes), f"{np.mean(errors):+.1%}", *said)
            figures[f"{name} {nodes}"] = {
                "error": round(float(np.mean(errors)), 4),
                "covered": shares[0],
                "efficiency": shares[1],
            }
    return table, figures, held


def _study(
    world: World, truth: dict[int, float], chance: np.random.Generator
) -> dict[int, tuple[float, bool | None, bool | None]]:
    """Error of the step, and whether a run to come and the efficiency are covered, by nodes."""
    found = prediction_summary(known_training_of(world, SCATTER, chance), Question(nodes=SIZES))
    assert not isinstance(found, Refused)
    points = {point.nodes: point for point in found.points}
    return {
        nodes: (
            points[nodes].step_s.mean / truth[nodes] - 1,
            _holds(points[nodes].step_s, run_s(world, nodes, SCATTER, chance)),
            _holds(points[nodes].efficiency, truth[1] / truth[nodes]),
        )
        for nodes in SIZES
    }


def _holds(estimate: Estimate, truth: float) -> bool | None:
    if estimate.low is None or estimate.high is None:
        return None
    return estimate.low <= truth <= estimate.high


def _share(held: tuple[bool | None, ...]) -> float | None:
    known = [one for one in held if one is not None]
    return round(float(np.mean(known)), 3) if known else None

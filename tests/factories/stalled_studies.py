"""Run folders of an experiment whose steps wait for known shares of their time."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from study_files import plan

STEP_S = {
    "alone": 0.050,
    "node": 0.060,
    "synthetic": 0.080,
    "warm": 0.090,
    "real": 0.100,
}
"""Of one rank, of a node's two, and of two nodes: with synthetic data, with files in memory, as it is."""
SHARES = {"compute": 0.5, "interconnect": 0.1, "network": 0.2, "preparation": 0.1, "fetch": 0.1}
"""What follows for two nodes."""
SPREAD = (0.998, 1.0, 1.002)
SYNTHETIC = {"of": "training", "data": "synthetic"}
WARM = {"of": "training", "data": "warm"}


def stalled(
    results: Path,
    step_s: Mapping[str, float] = STEP_S,
    samples: int = 32,
    as_it_is: Mapping[str, Any] | None = None,
) -> None:
    """Three repeats of each run of the study; `samples` is the batch of the rank alone.

    `as_it_is` is what is asked otherwise of the experiment itself.
    """
    for repeat, factor in enumerate(SPREAD, 1):
        for name, nodes, ranks_per_node, kind, variant in (
            ("training", 2, 2, "real", None),
            ("training-synthetic", 1, 2, "node", SYNTHETIC),
            ("training-synthetic", 2, 2, "synthetic", SYNTHETIC),
            ("training-alone", 1, 1, "alone", SYNTHETIC),
            ("training-warm", 2, 2, "warm", WARM),
        ):
            if kind not in step_s:
                continue
            run = plan(
                results,
                name,
                nodes,
                ranks_per_node,
                repeat,
                scaling="weak",
                variant=variant,
                **((as_it_is or {}) if variant is None else {}),
            )
            run.execute()
            batch = samples if kind == "alone" else 32
            # Rank 0 alone has exactly this time, the others a per mille less each.
            run.steps(step_s=step_s[kind] * factor, samples=batch, steps=30)

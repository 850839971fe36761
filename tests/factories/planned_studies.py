"""Studies that can be predicted: allreduces of a known network, and a training on it."""

import json
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from study_files import RunFiles, completed, plan

ALPHA_S = 1e-3
BYTE_S = 1e-8
SIZES = (4096, 65536, 1 << 20, 1 << 24)
LAYERS = (("head", 4_000_000, 0.01), ("body", 8_000_000, 0.03), ("stem", 1_000_000, 0.06))
"""Name, bytes and when the gradient is ready."""
STEP_S = 0.15


def allreduce_s(size: float, nodes: int) -> float:
    """A ring of one rank a node."""
    return 2 * (nodes - 1) * (ALPHA_S + size / nodes * BYTE_S)


def append(run: RunFiles, rank: int, *lines: Mapping[str, Any]) -> None:
    """More lines in the records of a rank."""
    with run.rank_file("100.0", rank).open("a") as file:
        file.write("".join(json.dumps(line) + "\n" for line in lines))


def collective(size: int, repetition: int, seconds: float) -> dict[str, Any]:
    """A time of an allreduce, as a rank records it."""
    return {
        "kind": "collective",
        "name": "allreduce",
        "bytes": size,
        "repetition": repetition,
        "seconds": seconds,
        "at": 1000.0 + repetition,
    }


def layers(timed: bool = True) -> dict[str, Any]:
    """The gradients, as a rank records them."""
    named = [
        {"name": name, "bytes": size, "ready_s": ready_s if timed else None}
        for name, size, ready_s in LAYERS
    ]
    return {"kind": "layers", "layers": named, "at": 1001.0}


def network(
    results: Path,
    nodes: Sequence[int] = (2, 4),
    name: str = "network",
    repeats: int = 2,
    scatter: float = 0.0,
    **asked: Any,
) -> None:
    """Runs that time allreduces alone; each other rank is a little faster than the first.

    Each repeat takes longer by the share `scatter`.
    """
    for size, repeat in product(nodes, range(1, repeats + 1)):
        run = plan(results, name, size, repeat=repeat, scaling="weak", **asked)
        run.execute()
        run.steps(steps=0)
        for rank in range(size):
            times = (
                collective(
                    data, repetition, allreduce_s(data, size) * (1 - 0.01 * rank + scatter * repeat)
                )
                for data in SIZES
                for repetition in range(3)
            )
            append(run, rank, *times)


def training(
    results: Path,
    steps_s: Mapping[int, float],
    timed: bool = True,
    *,
    repeat: int = 1,
    scaling: str = "strong",
    launcher: str = "horovod",
    **environment: str,
) -> None:
    """Runs of a training, by nodes, whose step takes so long; batches are the same at every size."""
    for nodes, step_s in steps_s.items():
        run = completed(
            results,
            step_s,
            experiment="training",
            nodes=nodes,
            repeat=repeat,
            scaling=scaling,
            launcher=launcher,
            environment=environment,
        )
        for rank in range(nodes):
            append(run, rank, layers(timed))


def training_of_ranks(
    results: Path, own_work_s: Mapping[int, Any], *, repeat: int = 1, samples: int = 32
) -> None:
    """As `training`, by nodes: own work of shape (steps, ranks), of which the slowest makes the step."""
    for nodes, own_s in own_work_s.items():
        run = plan(results, "training", nodes, repeat=repeat)
        run.execute()
        for rank in range(nodes):
            run.timed_steps(rank, own_s[:, rank], own_s.max(axis=1), samples)
            append(run, rank, layers())

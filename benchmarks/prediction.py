"""How near predictions are to steps on a network of known delay and rate: three whole studies, or more.

A table, and as the last line the figures as JSON.
"""

import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(PROJECT / "tests" / part) for part in ("slurm", "factories")]

from cluster import Cluster  # noqa: E402
from cluster_workspace import ClusterWorkspace  # noqa: E402
from known_network import (  # noqa: E402
    BYTES_PER_S,
    DELAY_S,
    error_from_two_nodes,
    figures,
    known_network,
    predicted,
)

from argosy_images.store.store import Store  # noqa: E402

STUDIES = 3
REPEATS = 2
"""Of single runs nobody can say how far they scatter, so predictions by them have no interval."""
BAR = 0.05
"""Of the step on four nodes, or it lies within its interval: in 19 studies of 20."""


def study(folder: Path, cluster: Cluster, number: int) -> dict[str, Any]:
    """The relative errors of one study, and whether the step on four nodes is within its interval."""
    store = Store.of_project(PROJECT).path
    path = folder / f"study{number}"
    workspace = ClusterWorkspace.copy(PROJECT, path, store, site="testbed", cluster=cluster)
    with known_network(workspace):
        found = figures(predicted(workspace, REPEATS))
        without = error_from_two_nodes(workspace)
    steps = {nodes: two[0] / two[1] - 1 for nodes, two in found["steps_ms"].items()}
    return {
        "delay": found["delay_ms"] / (1000 * DELAY_S) - 1,
        "rate": 1e6 * found["megabytes_per_s"] / BYTES_PER_S - 1,
        "step on 2 nodes": steps[2],
        "step on 4 nodes": steps[4],
        "… without allreduces on 4": without,
        "inside": found["inside"][4],
    }


def main(studies: int) -> None:
    """Make the studies, one after the other."""
    with tempfile.TemporaryDirectory(prefix="argosy-prediction-") as temporary:
        folder = Path(temporary)
        with Cluster.start(folder / "cluster") as cluster:
            errors = []
            for number in range(studies):
                errors.append(study(folder, cluster, number))
                print(f"study {number + 1} of {studies}: {errors[-1]}", file=sys.stderr, flush=True)
    for name in (name for name in errors[0] if name != "inside"):
        values = [one[name] for one in errors]
        each = ", ".join(f"{value:+.1%}" for value in values)
        print(f"{name:26} {statistics.median(values):+.1%}  ({each})")
    near = sum(abs(one["step on 4 nodes"]) <= BAR for one in errors)
    held = sum(abs(one["step on 4 nodes"]) <= BAR or one["inside"] is True for one in errors)
    print(
        f"the step on 4 nodes is within {BAR:.0%} in {near} of {studies}, or in its interval: {held}"
    )
    print(json.dumps(errors))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else STUDIES)

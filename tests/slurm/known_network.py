"""A study of training at a known pace on a network of known delay and rate."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from cluster_workspace import SNAKEMAKE, ClusterWorkspace

from argosy.report.runs.measurements import measurements
from argosy.report.runs.study_tables import open_study
from argosy.report.topics.phases import step_times
from argosy.report.topics.prediction.inputs import everything, known_training
from argosy.report.topics.prediction.training import KnownTraining, step_s

PACED = Path(__file__).parent / "programs" / "paced.py"
# Both are large beside what two cores take to be four nodes and their switch.
DELAY_S = 0.01
BYTES_PER_S = 5e6
LAYERS = 8
LAYER_KIB = 512
LAYER_S = 0.04
KIB = (4, 16, 1024, 4096)


def paced(repeats: int = 1) -> dict[str, Any]:
    """The experiment of the training; one step takes about half a second without communication."""
    kib, seconds = f" {LAYER_KIB}" * LAYERS, f" {LAYER_S}" * LAYERS
    command = "python3 /workloads/torch/paced.py --steps 12 --forward 0.3"
    return {
        "image": "torch-cpu",
        "command": f"{command} --kib{kib} --backward{seconds}",
        "scale": {"kind": "weak", "nodes": [1, 2, 4], "repeats": repeats},
        "resources": {"time": "10m"},
    }


def collectives(nodes: list[int], repeats: int = 1) -> dict[str, Any]:
    """The experiment of the network."""
    command = "python3 /workloads/torch/collectives.py --repeats 4 --warm-up 1 --in-a-cycle 2 --kib"
    return {
        "image": "torch-cpu",
        "command": " ".join([command, *map(str, KIB)]),
        "scale": {"kind": "weak", "nodes": nodes, "repeats": repeats},
        "resources": {"time": "10m"},
    }


@contextmanager
def known_network(workspace: ClusterWorkspace) -> Iterator[None]:
    """The project's ranks talk over the fast network, which is slow."""
    shutil.copy(PACED, workspace.path / "containers/workloads/torch/paced.py")
    site = workspace.path / "slurm/testbed/site.yaml"
    site.write_text(site.read_text().replace("interface: eth0", "interface: hs0"))
    with workspace.slurm.slow_network(DELAY_S, BYTES_PER_S):
        yield


def predicted(workspace: ClusterWorkspace, repeats: int = 1) -> dict[str, Any]:
    """The prediction in summary.json, of a training on 1, 2 and 4 nodes and allreduces on 2 and 4."""
    workspace.configure({"paced": paced(repeats), "network": collectives([2, 4], repeats)})
    # One job at a time: all nodes share this machine.
    status, output = workspace.run(*SNAKEMAKE, "--jobs", "1")
    assert status == 0, output
    summary = json.loads((workspace.path / "results/testbed/summary.json").read_text())
    (found,) = (one for one in summary["experiments"] if one["experiment"] == "paced")
    assert found["prediction"], found["no_prediction"]
    prediction: dict[str, Any] = found["prediction"]
    return prediction


def figures(prediction: dict[str, Any]) -> dict[str, Any]:
    """What of a prediction is compared with the truth; steps are predicted, then measured."""
    network = prediction["between_nodes"]
    return {
        "delay_ms": 500 * network["latency_s"]["mean"],
        "megabytes_per_s": network["bytes_per_s"]["mean"] / 1e6,
        "network_factor": prediction["network_factor"],
        "inside": {
            point["nodes"]: is_inside(point)
            for point in prediction["points"]
            if point["error"] is not None
        },
        "steps_ms": {
            point["nodes"]: [1000 * point["step_s"]["mean"], 1000 * measured_s(point)]
            for point in prediction["points"]
            if point["error"] is not None
        },
    }


def is_inside(point: dict[str, Any]) -> bool | None:
    """Whether the measured step is within the prediction's interval; None without one."""
    low, high = point["step_s"]["low"], point["step_s"]["high"]
    return None if low is None else bool(low <= measured_s(point) <= high)


def error_from_two_nodes(workspace: ClusterWorkspace) -> float:
    """Of the step on four nodes, predicted without anything that was measured on four."""
    tables_dir = workspace.path / "results/testbed/tables"
    with open_study(tables_dir) as tables:
        found = everything(tables, measurements(tables), step_times(tables), {})
    network = [time for time in found.allreduces["network"] if time.nodes == 2]
    known = known_training(replace(found, allreduces={"network": network}), "paced")
    assert isinstance(known, KnownTraining), known
    return step_s(known.training, 4) / known.measured_s[4] - 1


def measured_s(point: dict[str, Any]) -> float:
    """The measured step of a point of a prediction."""
    return float(point["step_s"]["mean"] / (1 + point["error"]))

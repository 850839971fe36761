"""A curve over ranks of a node and over nodes, a sweep, and a budget, from config.yaml to the report."""

import json
import re
from pathlib import Path
from typing import Any

from workspace import Workspace

from argosy_images.store.store import Store

CURVE = {
    "runtime": "native",
    "launcher": "plain",
    "independent": True,
    "command": "bash -c 'for i in 1 2 3 4 5 6 7 8; do echo rate $((WORLD_SIZE * 100 + i)); done'",
    "throughput": "rate ([0-9]+)",
    "scale": {"nodes": [1, 2], "ranks_per_node": [1, 2], "repeats": 1},
    "resources": {"time": "2m", "time_from_nodes": {2: "1m"}, "memory_per_rank": "100M"},
}
SWEEP = {
    **CURVE,
    "command": "bash -c 'for i in 1 2 3 4 5 6 7 8; do echo rate $(({lr} * {batch} + i)); done'",
    "sweep": {"lr": [1, 2], "batch": [32, 64]},
    "scale": {"nodes": [1], "repeats": 1},
}


def test_a_curve_and_a_sweep(project: Path, project_store: Store, tmp_path: Path) -> None:
    workspace = Workspace.copy(project, tmp_path / "project", project_store.path)
    experiments: dict[str, Any] = {"curve": CURVE, "train": SWEEP}
    workspace.configure(experiments, budget=0.1)
    status, output = workspace.snakemake("-n")
    assert status == 1
    # 4 runs of a sweep and 2 of a node of 2 minutes, and 1 of 2 nodes of 1 minute.
    assert "7 runs may take 0.23 node-hours (nodes × time limit), more than the 0.1" in output
    assert not (workspace.path / "results").exists()

    workspace.configure(experiments, budget=0.25)
    status, output = workspace.snakemake("--quiet", "host")
    assert status == 0, output
    assert "Budget: 7 runs may take 0.23 node-hours" in output
    summary = json.loads((workspace.path / "results/local/summary.json").read_text())
    curve, *combinations = summary["experiments"]
    assert [(one["nodes"], one["ranks"]) for one in curve["points"]] == [(1, 1), (1, 2), (2, 4)]
    assert 3.8 < curve["points"][-1]["speed_up"]["mean"] < 4
    assert [one["experiment"] for one in combinations] == [
        f"train-batch{batch}-lr{lr}" for batch in (32, 64) for lr in (1, 2)
    ]
    rates = [one["points"][0]["throughput_samples_per_s"]["mean"] for one in combinations]
    assert [rate // 32 for rate in rates] == [1, 2, 2, 4]
    assert "Sweep of train" in (workspace.path / "results/local/report.html").read_text()

    # Another value, and more ranks of a node, measure nothing again.
    larger = {**CURVE, "scale": {**CURVE["scale"], "nodes": [1, 2, 3]}}
    wider = {**SWEEP, "sweep": {"lr": [1, 2, 3], "batch": [32, 64]}}
    workspace.configure({"curve": larger, "train": wider})
    status, output = workspace.snakemake("-n")
    assert status == 0, output
    assert "Measured again" not in output
    assert re.search(r"^run +3$", output, re.MULTILINE), output

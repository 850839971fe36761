"""The report shows a program's printed loss and accuracy, and names a missing one."""

import json
from pathlib import Path

import pytest
from workspace import Workspace

from argosy_images import Store

SCRIPT = (
    "for n in 4 3 2; do echo loss 0.$n acc $((100 - n)).5% $((64 * WORLD_SIZE)) samples/s; done"
)


def test_printed_metrics_stand_beside_recorded_ones(
    project: Path, project_store: Store, tmp_path: Path
) -> None:
    workspace = Workspace.copy(project, tmp_path / "project", project_store.path)
    experiment = {
        "command": f"bash -c '{SCRIPT}'",
        "runtime": "native",
        "launcher": "plain",
        "independent": True,
        "throughput": "([0-9]+) samples/s",
        "metrics": {"loss": "loss ([0-9.]+)", "test_accuracy": "acc ([0-9.]+)", "lr": "lr (.+)"},
        "scale": {"nodes": [1, 2], "repeats": 1},
        "resources": {"memory_per_rank": "100M", "time": "1m"},
    }
    workspace.configure({"printing": experiment})
    status, output = workspace.snakemake()
    assert status == 0, output
    assert "the pattern of metrics.lr matched none of the 3 lines" in output
    summary = json.loads((workspace.path / "results/local/summary.json").read_text())
    [found] = summary["experiments"]
    for point in found["points"]:
        assert point["metrics"]["loss"]["mean"] == pytest.approx(0.2)
        assert point["test_accuracy"]["mean"] == pytest.approx(0.985)
        assert [*point["metrics"]] == ["loss"]
    for run in summary["runs"]:
        assert run["state"] == "completed" and run["unreadable_records"] == 0
        assert run["remarks"] == ["the pattern of metrics.lr matched none of the 3 lines"]
    page = (workspace.path / "results/local/report.html").read_text()
    assert "The pattern of metrics.lr matched none of the 3 lines." in page

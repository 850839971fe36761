"""The studies of config/ that come with Argosy, as docs/paper.md runs them."""

import json

import pytest
from workspace import Workspace

pytestmark = [pytest.mark.container, pytest.mark.slow]


def test_a_file_of_its_own_runs_its_experiments_alone(workspace: Workspace) -> None:
    status, output = workspace.snakemake(
        *("--configfile", "config/frameworks.yaml"),
        *("--config", "only=[googlenet-ddp,googlenet-horovod]"),
    )
    assert status == 0, output
    summary = json.loads((workspace.path / "results/local/summary.json").read_text())
    found = {one["experiment"]: one for one in summary["experiments"]}
    assert {name: one["setup"]["launcher"] for name, one in found.items()} == {
        "googlenet-ddp": "torch",
        "googlenet-horovod": "horovod",
    }
    for one in found.values():
        assert [point["ranks"] for point in one["points"]] == [1, 2]
        for point in one["points"]:
            assert set(point["metrics"]) == {"flops_per_sample", "peak_memory_bytes"}
            phases = point["phases_s_per_step"]
            assert phases["communication"] > 0 or point["ranks"] == 1
            assert phases["other"] < 0.05 * point["step_s"]

"""The studies of config/ that come with Argosy, as docs/paper.md runs them."""

import json
from statistics import median

import pytest
import step_files
from workspace import Workspace

pytestmark = [pytest.mark.thorough, pytest.mark.container, pytest.mark.slow]


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
    # From the records: of so few steps on a busy machine the report may say that they never became steady.
    for file in (workspace.path / "results/local").glob("*/*/records/*/rank-0.steps"):
        steps = [*step_files.all_steps(file)]
        assert len(steps) == 20 + 2
        assert median(sum(step.phases.values()) / step.seconds for step in steps) > 0.95
        exchanged = sum(step.phases["communication"] for step in steps)
        assert exchanged > 0 or "nodes1" in str(file)

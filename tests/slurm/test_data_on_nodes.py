"""Data that one node of a job does not see, and paths by variables that only jobs have."""

import json

import pytest
from cluster_workspace import ClusterWorkspace

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(400)]
RUN = "nodes2-ranks1-repeat1"


def ended(workspace: ClusterWorkspace) -> tuple[str, dict[str, str]]:
    """What snakemake printed, and the failure of the last attempt."""
    output = workspace.end(workspace.drive())
    folder = workspace.run_dir("count", RUN)
    assert (folder / "attempt").exists(), output
    attempt = (folder / "attempt").read_text().strip()
    verdict = json.loads((folder / f"attempts/{attempt}/verdict.json").read_text())
    return output, verdict["failure"]


def test_the_node_and_the_key_are_named(workspace: ClusterWorkspace) -> None:
    seen = workspace.path.parent / "seen"
    seen.mkdir()
    (seen / "file").touch()
    (workspace.path / "slurm/testbed/data.yaml").write_text(f"weather: {seen}\n")
    workspace.count([2], data={"/data/weather": "weather"})
    with workspace.slurm.node(2).without(seen):
        output, failure = ended(workspace)
    assert failure["node"] == 1
    assert failure["cause"] == (
        f"it did not start: experiments.count.data./data/weather: {seen} is empty; write a path that "
        "every node sees, there or in slurm/testbed/data.yaml"
    )
    assert "experiments.count.data./data/weather" in output

    workspace.count([2], data={"/data/weather": "$OF_NO_JOB/weather"})
    output, failure = ended(workspace)
    said = "data./data/weather: $OF_NO_JOB/weather: OF_NO_JOB is not set in this batch job"
    assert said in failure["cause"]
    assert said in " ".join(output.split())

    workspace.count([2], data={"/data/weather": "$SLURM_SUBMIT_DIR/run.json"})
    driver = workspace.drive()
    output = workspace.end(driver)
    assert driver.returncode == 0, output

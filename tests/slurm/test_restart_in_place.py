"""Restart in place: a run that lost a node goes on in its job, before Slurm misses the node."""

import json
import time
from collections.abc import Iterator

import pytest
from cluster_workspace import ClusterWorkspace

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(400)]
RUN = "nodes4-ranks1-repeat1"


@pytest.fixture
def study(workspace: ClusterWorkspace) -> Iterator[ClusterWorkspace]:
    """Afterwards all nodes are well again."""
    yield workspace
    for node in workspace.slurm.nodes:
        state = workspace.slurm.run("sinfo", "-h", "-n", node.name, "-o", "%t", "-p", "main").stdout
        if state.strip().startswith(("down", "drain")):
            workspace.slurm.run("scontrol", "update", f"nodename={node.name}", "state=resume")


def test_a_node_that_crashes_costs_seconds(study: ClusterWorkspace) -> None:
    study.count(
        ["2..4"], steps=400, checkpoints={"warning": "30s", "restarts": 2}, resources={"time": "4m"}
    )
    driver = study.drive()
    job = study.begun(driver, RUN, steps=25)
    hosts = study.slurm.run("squeue", "-h", "-j", job, "-o", "%N").stdout.strip()
    names = study.slurm.run("scontrol", "show", "hostnames", hosts).stdout.split()
    node = next(each for each in study.slurm.nodes if each.name == names[2])
    node.power_off()
    try:
        crashed = time.monotonic()
        study.wait_for(lambda: study.steps_done(RUN, f"{job}.0-1") > 0, "the first new step", 40)
        took = time.monotonic() - crashed
        assert took < 15
        output = study.end(driver)
    finally:
        node.power_on()
    assert driver.returncode == 0, output
    result = study.result(RUN)
    assert (result["state"], result["attempt"]) == ("completed", f"{job}.0-1")
    assert len(study.jobs(RUN)) == 1
    [failure] = study.failures()
    assert (failure["attempt"], failure["node"]) == (f"{job}.0", 2)
    claim = study.run_dir("count", RUN) / "attempts" / f"{job}.0-1" / "claim.json"
    assert json.loads(claim.read_text())["run"]["nodes"] == 3

"""Data in other places on other clusters, copied to nodes, and missing on a node."""

import json
import shutil
from dataclasses import replace

import pytest
from cluster import Cluster
from cluster_workspace import SNAKEMAKE, ClusterWorkspace, edit_site

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(400)]
RUN = "nodes2-ranks1-repeat1"
READ = """
import os, sys
print(os.listdir(sys.argv[1]), os.path.realpath(sys.argv[1]))
print("64 samples/s")
"""


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


@pytest.mark.container
@pytest.mark.usefixtures("torch_digest")
def test_one_configuration_on_three_clusters_with_data_in_three_places(
    workspace: ClusterWorkspace, accounting_cluster: Cluster
) -> None:
    sites = workspace.path / "slurm"
    shutil.copytree(sites / "testbed", sites / "other")
    (sites / "other/config.yaml").write_text("config: [site=other]\nargosy-poll-seconds: 1\n")
    edit_site(workspace, images={"folder": str(workspace.slurm.scratch)})
    for site, more in (("local", ""), ("testbed", ", stage: node"), ("other", "")):
        place = workspace.path.parent / f"of {site}"
        place.mkdir()
        (place / f"{site}.nc").write_text("warm")
        (sites / site / "data.yaml").write_text(f"weather: {{from: '{place}'{more}}}\n")
    (workspace.path / "containers/workloads/read.py").write_text(READ)
    experiment = {
        "image": "torch-cpu",
        "runtime": ["container", "native"],
        "launcher": "plain",
        "independent": True,
        "command": "python3 /workloads/read.py /data/weather",
        "throughput": "([0-9]+) samples/s",
        "scale": {"nodes": [2], "repeats": 1},
        "resources": {"time": "2m", "memory_per_rank": "500M"},
        "data": {"/data/weather": "weather"},
    }
    workspace.configure({"reads": experiment})
    config = (workspace.path / "config/config.yaml").read_bytes()
    for site, there in (
        ("testbed", workspace),
        ("other", replace(workspace, site="other", cluster=accounting_cluster)),
        ("local", replace(workspace, site="local")),
    ):
        command = [each.replace("testbed", site) for each in map(str, SNAKEMAKE)]
        driver = there.start(*(command if site != "local" else [command[0], *command[3:]]))
        output = there.end(driver)
        assert driver.returncode == 0, output
        for name in ("reads", "reads-native"):
            folder = there.run_dir(name, RUN)
            logs = folder / f"logs/{(folder / 'attempt').read_text().strip()}"
            for rank in (0, 1):
                seen = (logs / f"ranks/rank-{rank}.log").read_text()
                assert seen.startswith(f"['{site}.nc'] "), seen
                assert ("/data-" in seen) == (site == "testbed" and name == "reads-native")
            copied = (logs / "job.log").read_text().count("/data/weather: copied 4 B in ")
            there_already = (logs / "job.log").read_text().count("the copy of another job is there")
            assert copied + there_already == (2 if site == "testbed" else 0)
    assert (workspace.path / "config/config.yaml").read_bytes() == config
    counts = [
        log.read_text().count("/data/weather: copied 4 B in ")
        for log in workspace.path.glob(f"results/testbed/*/{RUN}/logs/*/job.log")
    ]
    # Once a node; which of the four nodes the second job had is Slurm's matter.
    assert sum(counts) in (2, 3, 4)

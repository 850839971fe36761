"""Ranks share the CPUs that Slurm gave the step, and have no others."""

import json
import os
from collections.abc import Callable, Iterator

import pytest
from cluster import Cluster
from cluster_workspace import ClusterWorkspace, edit_site

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(200)]

BINDING = "PartitionName=main Nodes=ALL Default=YES MaxTime=1-0\nTaskPlugin=task/affinity\n"
COMMAND = "bash -c 'grep Cpus_allowed_list /proc/self/status; echo threads $OMP_NUM_THREADS; echo 5 img/s'"


@pytest.fixture(scope="module")
def binding_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Its nodes bind steps to the CPUs of their jobs."""
    folder = tmp_path_factory.mktemp("slurm") / "binding"
    with Cluster.start(folder, nodes=2, site_lines=BINDING) as running:
        yield running


@pytest.mark.parametrize("ranks", [1, 2])
def test_ranks_have_cores_of_their_step(
    binding_cluster: Cluster, make_cluster_workspace: Callable[..., ClusterWorkspace], ranks: int
) -> None:
    workspace = make_cluster_workspace(binding_cluster)
    workspace.count(
        [2],
        command=COMMAND,
        throughput="(.*) img/s",
        scale={"nodes": [2], "ranks_per_node": ranks, "repeats": 1},
        resources={"memory_per_rank": "50M", "bind": "core"},
    )
    output = workspace.end(workspace.drive())
    run = f"nodes2-ranks{ranks}-repeat1"
    folder = workspace.run_dir("count", run)
    attempt = workspace.result(run)["attempt"]
    for node in range(2):
        status = json.loads((folder / f"records/{attempt}/node-{node}.json").read_text())
        # Slurm gave as many CPUs as the job asked for, though the machine has more.
        assert status["machine"]["cpus"] == ranks <= len(os.sched_getaffinity(0)), output
        seen = [each["cpus"] for each in status["ranks"]]
        assert len({*seen}) == ranks
        for rank, cpus in enumerate(seen, start=node * ranks):
            log = (folder / f"logs/{attempt}/ranks/rank-{rank}.log").read_text()
            assert f"Cpus_allowed_list:\t{cpus}\nthreads 1\n" in log


def test_a_rank_on_each_gpu_of_the_site(workspace: ClusterWorkspace) -> None:
    edit_site(workspace, hardware__cpu__gpus=4, hardware__cpu__options={"gpus-per-node": "{gpus}"})
    workspace.count(
        [1],
        command=COMMAND,
        throughput="(.*) img/s",
        scale={"nodes": [1], "ranks_per_node": "gpu", "repeats": 1},
        resources={"memory_per_rank": "50M"},
    )
    output = workspace.end(workspace.drive("-n"))
    assert "Running count nodes1-ranks4-repeat1" in output
    output = workspace.end(workspace.drive())
    # Slurm, which believes in these GPUs, gave the job all four.
    assert workspace.result("nodes1-ranks4-repeat1")["state"] == "completed", output

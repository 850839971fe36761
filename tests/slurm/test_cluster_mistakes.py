"""What is wrong is told in one line that says what to change, before anything is submitted."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster
from cluster_workspace import ClusterWorkspace, edit_site
from workspace import BIN, Workspace

from argosy_images.oci import ImageConfig
from argosy_images.store.lockfile import ImageLock, LockedBase

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(400)]
RUN = "nodes2-ranks1-repeat1"
SITE = "slurm/testbed/site.yaml"


def complaint(workspace: ClusterWorkspace) -> str:
    """The line of the output that says what is wrong; nothing has been submitted."""
    driver = workspace.drive()
    output = workspace.end(driver)
    assert driver.returncode != 0
    assert "Traceback" not in output
    assert workspace.jobs(RUN) == []
    lines = [line for line in output.splitlines() if ".yaml: " in line or "error: " in line]
    assert lines, output
    return lines[0]


@pytest.mark.parametrize(
    ("changes", "key", "words"),
    [
        ({"queues__main__options__partition": "gpu"}, "queues.main.options.partition", "gpu"),
        ({"partitoin": "main"}, "partitoin: no such key", "site.yaml"),
    ],
)
def test_a_wrong_site_file(
    workspace: ClusterWorkspace, changes: dict[str, Any], key: str, words: str
) -> None:
    workspace.count([2])
    edit_site(workspace, **changes)
    line = complaint(workspace)
    assert f"{SITE}: {key}" in line
    assert words.lower() in line.lower()


QUEUES = {
    "main": {"hardware": ["cpu"], "options": {"partition": "nowhere"}},
    "other": {"hardware": ["cpu"], "options": {"partition": "short"}, "only_by_name": True},
    "third": {"hardware": ["cpu"], "options": {"partition": "low"}, "only_by_name": True},
}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("resources", "changes", "keys", "words"),
    [
        (
            {"memory_per_rank": "9G"},
            {"hardware__cpu__memory": "1T"},
            "config.yaml: experiments.count.resources.memory_per_rank",
            "it requests mem=9216M on 2 nodes of partition main; 0 of 4 have it (the largest has 4000M)",
        ),
        ({}, {"queues": QUEUES}, f"{SITE}: queues.main.options.partition", "nowhere"),
        (
            {"gpus_per_rank": 3},
            {
                "hardware__cpu__gpus": 8,
                "hardware__cpu__options": {"gres": "gpu:a100_3g.20gb:{gpus}"},
            },
            f"{SITE}: hardware.cpu.options.gres, or config.yaml: experiments.count.resources.gpus_per_rank",
            "gpu:a100_3g.20gb:2",
        ),
        (
            {},
            {"options": {"constraint": "nvme"}, "queues__main__options__partition": "main"},
            "config.yaml: experiments.count.scale.nodes",
            "it requests 8 nodes, there are 4 nodes of partition main",
        ),
    ],
)
def test_only_what_the_script_asks_for_is_blamed(
    workspace: ClusterWorkspace,
    resources: dict[str, Any],
    changes: dict[str, Any],
    keys: str,
    words: str,
) -> None:
    workspace.count([8 if "options" in changes else 2], resources=resources)
    edit_site(workspace, **{"queues__main__limits": [{}], **changes})
    line = complaint(workspace)
    assert f"error: {keys}: Slurm refuses count/" in line
    assert words in line


@pytest.mark.thorough
def test_drained_nodes_and_closed_partitions_let_jobs_wait(workspace: ClusterWorkspace) -> None:
    """Slurm takes such jobs, though its test of them refuses when too few nodes are left."""
    control = ("scontrol", "update")
    workspace.count([2])
    nodes = "nodename=node[1-3]"
    workspace.slurm.run(*control, nodes, "state=drain", "reason=new cables")
    try:
        driver = workspace.drive()
        workspace.wait_for(lambda: bool(workspace.jobs(RUN)), "the job is submitted")
    finally:
        workspace.slurm.run(*control, nodes, "state=resume")
    output = workspace.end(driver)
    assert driver.returncode == 0, output
    assert (
        "count/nodes2-ranks1-repeat1: Slurm accepts this job, but it will wait: of 4 nodes"
        in output
    )
    assert "3 accept no jobs now (node1, node2, node3; drain: new cables)" in output
    assert f"{SITE}: queues.main.options.partition" in output

    workspace.count([1])
    workspace.slurm.run(*control, "partitionname=main", "state=down")
    try:
        driver = workspace.drive()
        run = "nodes1-ranks1-repeat1"
        workspace.wait_for(lambda: bool(workspace.jobs(run)), "the job is submitted")
    finally:
        workspace.slurm.run(*control, "partitionname=main", "state=up")
    output = workspace.end(driver)
    assert driver.returncode == 0, output
    assert "it will wait: the site has closed the partition main" in output

    workspace.count([1], steps=21)
    workspace.slurm.run(*control, "partitionname=main", "state=drain")
    try:
        driver = workspace.drive()
        output = workspace.end(driver)
    finally:
        workspace.slurm.run(*control, "partitionname=main", "state=up")
    assert driver.returncode != 0
    assert f"{SITE}: queues.main.options.partition: Slurm refuses" in output, output


SUBMIT_PLUGIN = """
function slurm_job_submit(job, partitions, user)
   slurm.log_user("kestrel: %s")
   return slurm.ERROR
end
function slurm_job_modify(job, record, partitions, user)
   return slurm.SUCCESS
end
return slurm.SUCCESS
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("words", "keys"),
    [
        ("please name the project that this work belongs to", [f"error: {SITE}: account: "]),
        (
            "not today",
            [
                f"partition=main ({SITE}: queues.main.options.partition)",
                "nodes=2 (config.yaml: experiments.count.scale.nodes)",
                "time=10 (config.yaml: experiments.count.resources.time)",
            ],
        ),
    ],
)
def test_a_site_that_refuses_in_words_of_its_own(
    workspace: ClusterWorkspace, words: str, keys: list[str]
) -> None:
    """A submit plugin is the site's own program; Slurm itself only says that there was an error."""
    etc = workspace.slurm.folder / "etc"
    before = (etc / "slurm.conf").read_text()
    (etc / "job_submit.lua").write_text(SUBMIT_PLUGIN % words)
    (etc / "slurm.conf").write_text(f"{before}\nJobSubmitPlugins=lua\n")
    workspace.count([2])
    try:
        workspace.slurm.run("scontrol", "reconfigure")
        line = complaint(workspace)
    finally:
        (etc / "slurm.conf").write_text(before)
        workspace.slurm.run("scontrol", "reconfigure")
    assert words in line
    assert "Unspecified error" not in line
    assert all(key in line for key in keys)


def test_what_the_site_is_known_not_to_have(workspace: ClusterWorkspace) -> None:
    workspace.count([2, 8])
    assert f"{SITE}: no queue accepts 8 nodes for 10m on cpu: main: at most 4 nodes" in complaint(
        workspace
    )


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("study", "key"),
    [
        ({"nodes": [2, 8]}, "experiments.count.scale.nodes"),
        ({"nodes": [2], "resources": {"time": "20m"}}, "experiments.count.resources.time"),
    ],
)
def test_what_only_slurm_knows(
    workspace: ClusterWorkspace, study: dict[str, Any], key: str
) -> None:
    """The site's file holds no limits; Slurm is asked before anything is submitted."""
    workspace.count(**study)
    edit_site(workspace, queues__main__limits=[{}], queues__main__options__partition="short")
    line = complaint(workspace)
    assert f"config.yaml: {key}" in line
    assert "Slurm" in line


@pytest.fixture
def accounted(
    accounting_cluster: Cluster, make_cluster_workspace: Callable[..., ClusterWorkspace]
) -> Iterator[ClusterWorkspace]:
    """A project where accounts and QoS are enforced."""
    yield make_cluster_workspace(accounting_cluster)
    accounting_cluster.run("scancel", "--me")
    accounting_cluster.wait_until_idle()


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"account": "nobody_s"}, "account"),
        ({"options": {"qos": "express"}}, "options.qos"),
    ],
)
def test_accounts_and_qos(accounted: ClusterWorkspace, changes: dict[str, Any], key: str) -> None:
    accounted.count([2])
    edit_site(accounted, **changes)
    assert f"{SITE}: {key}" in complaint(accounted)


def test_an_image_that_the_store_lacks(workspace: ClusterWorkspace) -> None:
    """It was imported once, and pruned: told before a job is submitted, or started on this machine."""
    lock = ImageLock.path_of(workspace.path, "pruned")
    base = LockedBase(reference="a file", source="file", diff_id=f"sha256:{0:064}")
    digest = f"sha256:{'0' * 64}"
    ImageLock(
        name="pruned",
        digest=digest,
        architecture="x86_64",
        base=base,
        steps=(),
        config=ImageConfig(),
    ).write(lock)
    workspace.count([2], runtime="container", image="pruned")
    remedy = "import it again: argosy image import SOURCE pruned"
    line = complaint(workspace)
    assert "resources/images/pruned/image.lock: count/nodes2-ranks1-repeat1 runs in this" in line
    assert remedy in line
    here = workspace.start(BIN / "snakemake", "--config", "site=local")
    output = workspace.end(here)
    assert here.returncode != 0
    assert remedy in output
    assert not [*workspace.path.glob("results/local/count/*/records")]


def test_without_slurm(workspace: ClusterWorkspace, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for program in ("bash", "env", "git", "uname", "tee"):
        (tools / program).symlink_to(str(shutil.which(program)))
    here = Workspace(
        workspace.path, {**workspace.environment, "PATH": f"{BIN}{os.pathsep}{tools}"}, "testbed"
    )
    workspace.count([2])
    status, output = here.run(BIN / "snakemake", "--profile", "slurm/testbed")
    assert status != 0
    assert f"{SITE}: scheduler: is slurm, but there is no `scontrol` on this machine" in output


@pytest.mark.thorough
def test_without_munge(workspace: ClusterWorkspace) -> None:
    workspace.count([2])
    workspace.slurm.munge.kill()
    try:
        assert "munge" in complaint(workspace)
    finally:
        workspace.slurm.munge.start()
        # Slurm's daemons try again in their own time.
        workspace.slurm.run("srun", "true", timeout=120)


def test_a_node_that_cannot_write_the_results(workspace: ClusterWorkspace) -> None:
    workspace.count([1])
    run_dir = workspace.run_dir("count", "nodes1-ranks1-repeat1")
    results = workspace.path / "results"
    results.mkdir()
    with ExitStack() as hidden:
        for node in workspace.slurm.nodes:
            hidden.enter_context(node.without(results))
        driver = workspace.drive()
        output = workspace.end(driver)
    assert driver.returncode != 0
    assert f"can the compute nodes write to {run_dir}?" in output, output

"""What Slurm gives is held against what was asked: partition, CPUs, memory; and a job that only ends."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from cluster_workspace import TESTBED, ClusterWorkspace, edit_site
from workspace import BIN

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(400)]
RUN = "nodes1-ranks1-repeat1"
QUEUE = ("squeue", "--me", "--noheader")
PLUGIN = """
function slurm_job_submit(job, partitions, user)
   %s
   return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, user)
   return slurm.SUCCESS
end
return slurm.SUCCESS
"""
SENDS_ELSEWHERE = 'if job.partition == "main" then job.partition = "high" end'
WANTS_MEMORY_BY_CPU = """if job.pn_min_memory ~= nil and job.pn_min_memory < 2^60 then
      slurm.log_user("Requesting memory by node is not supported. Use --mem-per-cpu.")
      return slurm.ERROR
   end"""


@contextmanager
def configured(workspace: ClusterWorkspace, more: str = "", plugin: str = "") -> Iterator[None]:
    """The cluster with more lines in its slurm.conf, and a plugin that sees what is submitted."""
    conf = workspace.slurm.folder / "etc/slurm.conf"
    before = conf.read_text()
    if plugin:
        (conf.parent / "job_submit.lua").write_text(PLUGIN % plugin)
        more += "\nJobSubmitPlugins=lua"
    conf.write_text(f"{before}\n{more}\n")
    try:
        workspace.slurm.run("scontrol", "reconfigure")
        yield
    finally:
        conf.write_text(before)
        workspace.slurm.run("scontrol", "reconfigure")


def test_jobs_that_the_site_sends_elsewhere_are_refused(workspace: ClusterWorkspace) -> None:
    workspace.count([1])
    with configured(workspace, plugin=SENDS_ELSEWHERE):
        driver = workspace.drive()
        output = workspace.end(driver)
        assert driver.returncode != 0
        assert f"error: {TESTBED}: queues.main.options.partition: Slurm would run count/" in output
        assert "in the partition high: the site redirects jobs of main to it" in output
        assert workspace.jobs(RUN) == []
        status, output = workspace.run(BIN / "argosy", "doctor", "testbed", "--no-job")
        assert status != 0 and "in the partition high" in output


def test_a_job_that_is_moved_while_it_waits_measures_nothing(workspace: ClusterWorkspace) -> None:
    workspace.count([1])
    workspace.slurm.run("scontrol", "update", "partitionname=main", "state=down")
    try:
        driver = workspace.drive()
        workspace.wait_for(lambda: bool(workspace.jobs(RUN)), "the job is submitted")
        job_id = workspace.jobs(RUN)[0]["job_id"]
        workspace.slurm.run("scontrol", "update", f"jobid={job_id}", "partition=high")
    finally:
        workspace.slurm.run("scontrol", "update", "partitionname=main", "state=up")
    output = workspace.end(driver)
    assert driver.returncode != 0
    assert "the job requested the partition main and Slurm assigned high" in output, output


@pytest.mark.parametrize("of_all", ["", "MaxMemPerCPU=500"])
def test_memory_that_counts_as_cpus_is_said(workspace: ClusterWorkspace, of_all: str) -> None:
    workspace.count([1], resources={"memory_per_rank": "1900M"})
    edit_site(workspace, queues__main__options__partition="dear")
    own = "" if of_all else "MaxMemPerCPU=500"
    lines = f"{of_all}\nPartitionName=dear Nodes=ALL MaxTime=1-0 {own}"
    with configured(workspace, lines):
        driver = workspace.drive()
        output = workspace.end(driver)
    assert driver.returncode == 0, output
    said = (
        "Slurm will allocate 4 CPUs of each node instead of 1, since the partition dear counts 500"
    )
    assert said in output
    assert "config.yaml: experiments.count.resources.memory_per_rank" in output


def test_memory_by_cpu(workspace: ClusterWorkspace) -> None:
    workspace.count([1], resources={"memory_per_rank": "1G", "cpus_per_rank": 3}, steps=60)
    with configured(workspace, plugin=WANTS_MEMORY_BY_CPU):
        driver = workspace.drive()
        output = workspace.end(driver)
        assert driver.returncode != 0
        assert f"error: {TESTBED}: options: write `mem-per-cpu: " in output, output
        edit_site(workspace, options={"mem-per-cpu": "{memory_per_cpu}M"})
        driver = workspace.drive()
        workspace.wait_for(lambda: bool(workspace.jobs(RUN)), "the job is submitted")
        job = workspace.slurm.run("scontrol", "show", "job", workspace.jobs(RUN)[0]["job_id"])
        output = workspace.end(driver)
    assert driver.returncode == 0, output
    assert "MinMemoryCPU=342M" in job.stdout


CUTS = [
    (
        "job.pn_min_memory = 300",
        "resources.memory_per_rank",
        "1000 MiB of memory of each node",
        300,
    ),
    (
        "job.cpus_per_task = 1; job.min_cpus = 2; job.pn_min_cpus = 1",
        "resources.cpus_per_rank",
        "2 CPUs of each node",
        1,
    ),
    ('job.tres_per_node = "gres:gpu:a100:1"', "resources.gpus_per_rank", "2 GPUs of each node", 1),
    ('job.tres_per_node = ""', "resources.gpus_per_rank", "2 GPUs of each node", 0),
]


@pytest.mark.parametrize(("cut", "key", "asked", "given"), CUTS)
def test_a_job_of_which_the_site_cuts_something_measures_nothing(
    workspace: ClusterWorkspace, cut: str, key: str, asked: str, given: int
) -> None:
    gpus = {"gpus_per_rank": 2} if "gpus" in key else {}
    workspace.count([2], resources={"cpus_per_rank": 2, "memory_per_rank": "1000M", **gpus})
    edit_site(workspace, hardware__cpu__gpus=4, hardware__cpu__options={"gres": "gpu:a100:{gpus}"})
    run_id = "nodes2-ranks1-repeat1"
    with configured(workspace, plugin=cut):
        driver = workspace.drive()
        output = workspace.end(driver)
    assert driver.returncode != 0
    assert (
        f"config.yaml: experiments.count.{key}: the job requested {asked} and Slurm allocated {given}"
        in output
    ), output
    assert not (workspace.run_dir("count", run_id) / "result.json").exists()


def test_a_job_of_fewer_nodes_is_refused_before_it_waits(workspace: ClusterWorkspace) -> None:
    workspace.count([2])
    with configured(
        workspace,
        plugin="job.min_nodes = 1; job.max_nodes = 1; job.min_cpus = 1; job.num_tasks = 1",
    ):
        driver = workspace.drive()
        output = workspace.end(driver)
    assert driver.returncode != 0
    assert (
        "config.yaml: experiments.count.scale.nodes: Slurm would allocate 1 of the 2 nodes that"
        in output
    )
    assert "nodes that count/nodes2-ranks1-repeat1 requests" in output, output
    assert workspace.jobs("nodes2-ranks1-repeat1") == []


def test_a_job_that_only_ends_holds_nobody(workspace: ClusterWorkspace) -> None:
    """The site cleans up after each job for longer than the study takes."""
    epilog = workspace.slurm.folder / "epilog"
    epilog.write_text("#!/bin/sh\nsleep 30\n")
    epilog.chmod(0o755)
    workspace.count([1], steps=5)
    with configured(workspace, f"Epilog={epilog}"):
        # Daemons of nodes have read it.
        time.sleep(2)
        driver = workspace.drive("--argosy-poll-seconds", "1")
        output = workspace.end(driver)
        assert driver.returncode == 0, output
        assert workspace.slurm.run(*QUEUE, "--format=%T").stdout.split() == ["COMPLETING"]
        status, told = workspace.run(BIN / "argosy", "status")
        assert status == 0
        assert "completed" in told and "its job is ending: the site cleans up after it" in told

        # What is asked for next is another job, not the one that ends.
        workspace.count([1], steps=6)
        driver = workspace.drive("--argosy-poll-seconds", "1")
        output = workspace.end(driver)
        assert driver.returncode == 0, output
        assert len({job["job_id"] for job in workspace.jobs(RUN)}) == 2
    workspace.wait_for(lambda: not workspace.slurm.run(*QUEUE).stdout, "the job has ended")
    _, told = workspace.run(BIN / "argosy", "status")
    assert "its job is ending" not in told

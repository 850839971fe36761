"""Images on the nodes' own disks, and images built by a job, on a real cluster."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from cluster import Cluster
from cluster_workspace import COUNT, ClusterWorkspace
from workspace import BIN

from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store

pytestmark = [pytest.mark.slurm, pytest.mark.container, pytest.mark.timeout(600)]


def change_site(workspace: ClusterWorkspace, **images: str) -> None:
    path = workspace.path / "slurm/testbed/site.yaml"
    content = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**content, "images": images}, sort_keys=False))


def test_each_node_unpacks_the_image_once_and_keeps_it(
    workspace: ClusterWorkspace, torch_digest: str
) -> None:
    change_site(workspace, stage="node", folder=str(workspace.slurm.scratch), cache_size="4G")
    program = workspace.path / "containers/workloads/count.py"
    program.write_text(COUNT.read_text())
    workspace.configure(
        {
            "count": {
                "image": "torch-cpu",
                "launcher": "plain",
                "independent": True,
                "command": "python3 /workloads/count.py --steps 3",
                "scale": {"nodes": [2], "repeats": 2},
                "resources": {"time": "10m"},
            }
        }
    )
    driver = workspace.drive("--jobs", "1")
    output = workspace.end(driver)
    assert driver.returncode == 0, output
    assert "Packing image torch-cpu" in output
    said = []
    for repeat in (1, 2):
        result = workspace.result(f"nodes2-ranks1-repeat{repeat}")
        folder = workspace.run_dir("count", f"nodes2-ranks1-repeat{repeat}") / "logs"
        logs = (folder / result["attempt"]).glob("node-*.log")
        said.append([log.read_text().count("argosy: unpacked the image in") for log in logs])
    assert result["state"] == "completed"
    # Whichever was second ran on the same nodes, as nothing else is on the cluster.
    assert sorted(said) == [[0, 0], [1, 1]]


@pytest.fixture
def builder(
    cluster: Cluster, project: Path, store: Store, tmp_path: Path
) -> Iterator[ClusterWorkspace]:
    """A project with a store of its own, whose site builds images by jobs."""
    path = tmp_path / "a project; with $(odd) 'name' 100%"
    made = ClusterWorkspace.copy(project, path, store.path, site="testbed", cluster=cluster)
    change_site(made, build="job")
    (path / "containers/tiny").mkdir()
    (path / "containers/tiny/file").write_text("content")
    (path / "containers/tiny/Containerfile").write_text("FROM scratch\nCOPY file /file\n")
    yield made
    set_partition(cluster, "up")
    cluster.run("scancel", "--me")
    cluster.wait_until_idle()


def set_partition(cluster: Cluster, state: str) -> None:
    cluster.run("scontrol", "update", "PartitionName=main", f"State={state}")


BUILD = (BIN / "argosy", "image", "build", "tiny", "--site", "testbed")


def built_jobs(builder: ClusterWorkspace) -> list[str]:
    path = builder.path / "logs/testbed/builds/tiny/job.json"
    jobs = json.loads(path.read_text())["jobs"] if path.exists() else []
    return [job["job_id"] for job in jobs]


def assert_built(builder: ClusterWorkspace, store: Store) -> None:
    lock = ImageLock.read(builder.path / "resources/images/tiny/image.lock")
    assert (store.root(lock.digest) / "file").read_text() == "content"


def test_an_image_is_built_by_a_job(builder: ClusterWorkspace, store: Store) -> None:
    status, output = builder.run(*BUILD)
    assert status == 0, output
    [job_id] = built_jobs(builder)
    assert f"job {job_id}: " in output
    # What the build in the job says, as if it ran here.
    assert "COPY file /file  " in output
    assert "image tiny sha256:" in output
    assert_built(builder, store)
    status, output = builder.run(*BUILD)
    assert status == 0, output
    assert "all 1 steps are cached" in output
    assert built_jobs(builder) == [job_id]


def test_a_failed_build_is_told_in_its_own_words(builder: ClusterWorkspace) -> None:
    text = "FROM scratch\nCOPY file /file\nRUN anything\n"
    (builder.path / "containers/tiny/Containerfile").write_text(text)
    status, output = builder.run(*BUILD)
    assert status == 2
    last = output.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert "Containerfile:3: " in last
    assert f"(job {built_jobs(builder)[0]}, " in last
    assert "Traceback" not in output


def in_the_queue(builder: ClusterWorkspace) -> list[str]:
    listed = builder.slurm.run("squeue", "-h", "--me", "-t", "PD,R", "-o", "%i").stdout
    return listed.split()


def wait_for_the_job(builder: ClusterWorkspace) -> None:
    builder.wait_for(lambda: bool(in_the_queue(builder)), "the job")
    builder.wait_for(lambda: bool(built_jobs(builder)), "what was submitted")


def test_a_job_that_was_left_is_attached_to(builder: ClusterWorkspace, store: Store) -> None:
    set_partition(builder.slurm, "down")
    first = builder.start(*BUILD)
    wait_for_the_job(builder)
    first.send_signal(signal.SIGKILL)
    builder.end(first)
    second = builder.start(*BUILD)
    line = ""
    assert second.stdout
    while "pending" not in line:
        line = second.stdout.readline()
        assert line, "the second build ended"
    set_partition(builder.slurm, "up")
    builder.end(second)
    assert second.returncode == 0
    [job_id] = built_jobs(builder)
    assert f"job {job_id}: pending" in line
    assert_built(builder, store)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_cancels_the_job(builder: ClusterWorkspace, number: signal.Signals) -> None:
    set_partition(builder.slurm, "down")
    build = builder.start(*BUILD)
    wait_for_the_job(builder)
    build.send_signal(number)
    output = builder.end(build)
    assert build.returncode != 0
    assert "the job is cancelled" in output
    assert "Traceback" not in output
    builder.wait_for(lambda: not in_the_queue(builder), "an empty queue", 20)


def test_the_workflow_builds_by_a_job(builder: ClusterWorkspace, store: Store) -> None:
    experiment = {"image": "tiny", "launcher": "plain", "command": "none", "scale": {"nodes": [1]}}
    builder.configure({"tiny": experiment}, site="testbed")
    lock = "resources/images/tiny/image.lock"
    status, output = builder.run(BIN / "snakemake", "--profile", "slurm/testbed", lock)
    assert status == 0, output
    assert len(built_jobs(builder)) == 1
    assert_built(builder, store)


def test_a_job_builds_an_image_that_the_configuration_describes(builder: ClusterWorkspace) -> None:
    image = {"from": "tiny", "system": "libgl1"}
    experiment = {"image": image, "launcher": "plain", "command": "none", "scale": {"nodes": [1]}}
    builder.configure({"tiny": experiment}, site="testbed")
    status, output = builder.run(BIN / "snakemake", "--profile", "slurm/testbed", "plan_runs")
    # There is no apt-get in it.
    assert status != 0 and "Traceback" not in output
    # By the job's log, which is followed, and by the command.
    *_, error = [line for line in output.splitlines() if line.startswith("error: image of")]
    assert error.startswith("error: image of libgl1 upon tiny: resources/images/tiny-")
    assert "RUN failed with exit status" in error and "(job " in error

"""What breaks on a cluster, and what becomes of the run: the table in docs/when-things-break.md."""

import time
from collections.abc import Iterator

import pytest
from cluster_workspace import ClusterWorkspace, edit_site
from workspace import BIN

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(400)]
RUN = "nodes2-ranks1-repeat1"


@pytest.fixture
def study(workspace: ClusterWorkspace) -> Iterator[ClusterWorkspace]:
    """A run on two nodes that takes some seconds; afterwards all nodes are well again."""
    workspace.count([2], steps=100)
    yield workspace
    for node in workspace.slurm.nodes:
        state = workspace.slurm.run("sinfo", "-h", "-n", node.name, "-o", "%t", "-p", "main").stdout
        if state.strip().startswith(("down", "drain")):
            workspace.slurm.run("scontrol", "update", f"nodename={node.name}", "state=resume")


def whole(study: ClusterWorkspace) -> None:
    """The run is complete, as one job, and each of its steps is there once."""
    result = study.result(RUN)
    assert result["state"] == "completed"
    assert len(study.jobs(RUN)) == 1
    for rank in (0, 1):
        assert study.steps_done(RUN, result["attempt"], rank) == 100


def test_a_node_that_goes_down(study: ClusterWorkspace) -> None:
    driver = study.drive()
    job = study.begun(driver, RUN)
    hosts = study.slurm.run("squeue", "-h", "-j", job, "-o", "%N").stdout.strip()
    last = study.slurm.run("scontrol", "show", "hostnames", hosts).stdout.split()[-1]
    study.slurm.run("scontrol", "update", f"nodename={last}", "state=down", "reason=test")
    output = study.end(driver)
    assert driver.returncode == 0, output
    whole(study)
    assert study.result(RUN)["attempt"] == f"{job}.1"
    [failure] = study.failures()
    assert failure["attempt"] == f"{job}.0"
    assert "node failure" in failure["cause"]


@pytest.mark.parametrize(
    "away_s", [pytest.param(0, marks=pytest.mark.thorough), 8], ids=lambda each: f"{each}s"
)
def test_a_node_that_crashes_and_is_back_before_slurm_misses_it(
    study: ClusterWorkspace, away_s: float
) -> None:
    """Slurm waits for a node for SlurmdTimeout, here 15 s, and then for the step's tasks without end."""
    study.count([2], steps=3000, resources={"time": "4m"})
    driver = study.drive()
    job = study.begun(driver, RUN)
    hosts = study.slurm.run("squeue", "-h", "-j", job, "-o", "%N").stdout.strip()
    last = study.slurm.run("scontrol", "show", "hostnames", hosts).stdout.split()[-1]
    node = next(each for each in study.slurm.nodes if each.name == last)
    node.power_off()
    crashed = time.monotonic()
    time.sleep(away_s)
    node.power_on()
    output = study.end(driver)
    assert driver.returncode == 1
    assert time.monotonic() - crashed < 90, "the job has held its nodes"
    assert "its agent vanished" in output
    assert "time limit" not in output
    [failure] = study.failures()
    assert (failure["node"], failure["state"]) == (1, "failed")
    assert "its agent vanished" in failure["cause"]
    assert "time limit" not in failure["cause"]


@pytest.mark.thorough
def test_the_first_node_crashes_and_is_back_before_slurm_misses_it(study: ClusterWorkspace) -> None:
    """The batch script was on it: Slurm itself finds that out, and starts the job again."""
    driver = study.drive()
    job = study.begun(driver, RUN)
    hosts = study.slurm.run("squeue", "-h", "-j", job, "-o", "%N").stdout.strip()
    first = study.slurm.run("scontrol", "show", "hostnames", hosts).stdout.split()[0]
    node = next(each for each in study.slurm.nodes if each.name == first)
    node.power_off()
    time.sleep(8)
    node.power_on()
    output = study.end(driver)
    assert driver.returncode == 0, output
    whole(study)
    assert not [each for each in study.failures() if "time limit" in each["cause"]]


@pytest.mark.thorough
def test_a_slurmd_that_dies_while_its_job_lives_on(study: ClusterWorkspace) -> None:
    """Slurm gives the node up after 15 s and starts the run again: two attempts at once."""
    study.count([2], steps=350)
    driver = study.drive()
    job = study.begun(driver, RUN)
    hosts = study.slurm.run("squeue", "-h", "-j", job, "-o", "%N").stdout.strip()
    first = study.slurm.run("scontrol", "show", "hostnames", hosts).stdout.split()[0]
    node = next(each for each in study.slurm.nodes if each.name == first)
    node.kill_slurmd()
    try:
        output = study.end(driver)
        assert driver.returncode == 0, output
        result = study.result(RUN)
        assert result["attempt"] == f"{job}.1"
        assert study.steps_done(RUN, f"{job}.1") == 350
        # The one that lived on has seen that the run is another's, and is gone.
        assert not [each for each in node.processes() if "count.py" in " ".join(each.command)]
        [failure] = study.failures()
        assert failure["attempt"] == f"{job}.0"
        assert failure["state"] == "failed"
    finally:
        node.start_slurmd()


def test_requeued_by_hand(study: ClusterWorkspace) -> None:
    driver = study.drive()
    job = study.begun(driver, RUN)
    study.slurm.run("scontrol", "requeue", job)
    output = study.end(driver)
    assert driver.returncode == 0, output
    whole(study)
    assert study.result(RUN)["attempt"] == f"{job}.1"
    [failure] = study.failures()
    assert "job requeue" in failure["cause"]


def test_suspended_by_hand(study: ClusterWorkspace) -> None:
    """For longer than an agent counts as lost; the run goes on after it."""
    driver = study.drive("--argosy-poll-seconds", "1")
    job = study.begun(driver, RUN)
    study.slurm.run("scontrol", "suspend", job)
    try:
        time.sleep(8)
        done = study.steps_done(RUN)
        _, told = study.run(BIN / "argosy", "status")
        assert "its job is suspended" in told
        time.sleep(2)
        assert study.steps_done(RUN) == done
    finally:
        study.slurm.run("scontrol", "resume", job)
    output = study.end(driver)
    assert driver.returncode == 0, output
    assert "jobs: 1 suspended" in output
    whole(study)
    assert study.result(RUN)["attempt"] == f"{job}.0"


def test_cancelled_by_hand(study: ClusterWorkspace) -> None:
    driver = study.drive()
    job = study.begun(driver, RUN)
    study.slurm.run("scancel", job)
    output = study.end(driver)
    assert driver.returncode == 1
    assert f"testbed/count/{RUN}: cancelled" in output
    assert not (study.run_dir("count", RUN) / "result.json").exists()
    [failure] = study.failures()
    assert (failure["attempt"], failure["state"]) == (f"{job}.0", "cancelled")


def test_a_step_that_somebody_cancels(study: ClusterWorkspace) -> None:
    """The agents are killed at once; the script lives on and its log has Slurm's message."""
    driver = study.drive()
    job = study.begun(driver, RUN)
    study.slurm.run("scancel", f"{job}.0")
    output = study.end(driver)
    assert driver.returncode != 0
    assert f"was killed: Slurm was told to end it (STEP {job}.0 ON node" in output, output


def test_killed_by_hand_with_no_time_for_a_last_word(study: ClusterWorkspace) -> None:
    driver = study.drive()
    job = study.begun(driver, RUN)
    study.slurm.run("scancel", "--signal=KILL", "--full", job)
    study.slurm.run("scancel", job)
    output = study.end(driver)
    assert driver.returncode != 0
    assert f"testbed/count/{RUN}: cancelled" in output
    [failure] = study.failures()
    assert (failure["attempt"], failure["state"]) == (f"{job}.0", "cancelled")


def test_slurmctld_that_starts_again(study: ClusterWorkspace) -> None:
    driver = study.drive()
    study.begun(driver, RUN)
    time.sleep(6)  # slurmctld forgets what it has not saved, every five seconds
    study.slurm.controller.kill()
    time.sleep(3)
    study.slurm.controller.start()
    output = study.end(driver)
    assert driver.returncode == 0, output
    whole(study)


@pytest.mark.thorough
def test_slurmctld_that_is_away_for_a_minute(study: ClusterWorkspace) -> None:
    driver = study.drive()
    study.begun(driver, RUN)
    study.slurm.controller.pause()
    try:
        time.sleep(60)
        assert driver.poll() is None
        # The run itself needs no slurmctld.
        assert study.result(RUN)["state"] == "completed"
    finally:
        study.slurm.controller.resume()
    output = study.end(driver)
    assert driver.returncode == 0, output
    assert "Slurm has not answered for" in output
    whole(study)
    assert study.failures() == []


@pytest.mark.thorough
def test_the_time_limit(study: ClusterWorkspace) -> None:
    study.count([2], steps=3000, resources={"time": "1m"})
    driver = study.drive()
    output = study.end(driver)
    assert driver.returncode == 1
    cause = "ended by Slurm: time limit; raise resources.time, or let the program save checkpoints"
    assert cause in output
    [failure] = study.failures()
    assert failure["cause"] == cause


SPOILED = "bash -c '[ $(hostname) != node1 ] || exit 7; sleep 8; echo 5 samples/s'"


@pytest.mark.parametrize("avoids", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_a_node_that_spoils_every_job_is_avoided(study: ClusterWorkspace, avoids: bool) -> None:
    """It is free again at once, and would get most of the jobs."""
    if not avoids:
        edit_site(study, avoid_bad_nodes=False)
    cpus = int(study.slurm.run("sinfo", "-h", "-n", "node1", "-p", "main", "-o", "%c").stdout)
    study.count(
        [1],
        repeats=12,
        command=SPOILED,
        throughput="(.*) samples/s",
        resources={"cpus_per_rank": cpus, "memory_per_rank": "50M"},
    )
    output = study.end(study.drive())
    completed = [*study.path.glob("results/testbed/count/*/result.json")]
    assert ("node1: several runs failed on this node" in output) == avoids, output
    assert "all on node1, where no run completed: `options: {exclude: node1}`" in output
    if avoids:
        assert len(completed) >= 8, output

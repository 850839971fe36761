"""A driver that dies leaves its jobs to the next one: none is lost, and none is submitted twice."""

import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster import Cluster
from cluster_workspace import ClusterWorkspace

# A driver that is killed at a moment, and jobs that end at another, want a quiet machine.
pytestmark = [pytest.mark.quiet, pytest.mark.slurm, pytest.mark.timeout(400)]
RUNS = [f"nodes1-ranks1-repeat{repeat}" for repeat in range(1, 9)]


@pytest.fixture
def study(
    accounting_cluster: Cluster, make_cluster_workspace: Callable[..., ClusterWorkspace]
) -> Iterator[ClusterWorkspace]:
    """Eight runs on a cluster that keeps accounts."""
    workspace = make_cluster_workspace(accounting_cluster)
    workspace.count([1], repeats=8, steps=80)
    yield workspace
    accounting_cluster.run("scancel", "--me")
    accounting_cluster.wait_until_idle()


def accounted(study: ClusterWorkspace) -> list[str]:
    """The names of all jobs of this study that the accounts know."""
    text = study.slurm.run(
        "sacct", "-X", "-n", "-P", "--starttime=now-1hour", "--format=JobName,WorkDir"
    ).stdout
    rows = [line.split("|") for line in text.splitlines()]
    return sorted(name for name, folder in rows if folder.startswith(str(study.path)))


def kill_with_jobs_in_flight(study: ClusterWorkspace, when: Callable[[], bool], what: str) -> None:
    driver = study.drive()
    study.wait_for(lambda: all(study.jobs(run) for run in RUNS), "eight submitted jobs")
    study.wait_for(when, what)
    driver.send_signal(signal.SIGKILL)
    driver.wait()


def finish(study: ClusterWorkspace) -> None:
    driver = study.drive()
    output = study.end(driver)
    assert driver.returncode == 0, output
    for run in RUNS:
        assert study.result(run)["state"] == "completed"
        assert len(study.jobs(run)) == 1
    assert accounted(study) == [f"argosy-count-{run}" for run in RUNS]


def test_killed_with_eight_jobs_in_flight(study: ClusterWorkspace) -> None:
    kill_with_jobs_in_flight(study, lambda: study.steps_done(RUNS[0]) > 0, "the first run's steps")
    finish(study)


def test_started_again_when_all_jobs_have_ended(study: ClusterWorkspace) -> None:
    """What completed while nobody looked is collected, though Snakemake takes it for a fragment."""
    study.count([1], repeats=8, steps=10)
    kill_with_jobs_in_flight(study, lambda: True, "nothing more")
    results = [study.run_dir("count", run) / "result.json" for run in RUNS]
    study.wait_for(lambda: all(path.exists() for path in results), "the ends of all jobs", 120)
    finish(study)


def test_a_second_driver_beside_the_first_is_refused(study: ClusterWorkspace) -> None:
    study.count([1], repeats=8, steps=30)
    driver = study.drive()
    study.wait_for(lambda: bool(study.jobs(RUNS[0])), "the first job")
    other = study.drive()
    output = study.end(other)
    assert other.returncode != 0
    assert f"driven by another snakemake (process {driver.pid} on login)" in output
    study.end(driver)
    assert driver.returncode == 0
    assert len(accounted(study)) == 8


@pytest.mark.parametrize("choice", ["cancel", "leave"])
def test_an_interrupt_does_with_the_jobs_as_chosen(study: ClusterWorkspace, choice: str) -> None:
    driver = study.drive("--argosy-on-interrupt", choice)
    study.wait_for(lambda: study.steps_done(RUNS[0]) > 0, "the first run's steps")
    driver.send_signal(signal.SIGINT)
    study.end(driver)
    queue = study.slurm.run("squeue", "-h", "--me", "-t", "PD,R", "-o", "%j").stdout.split()
    if choice == "cancel":
        assert queue == []
    else:
        assert queue, "the jobs that had not ended by then"
        finish(study)


def test_a_script_of_a_copied_project_leaves_the_project_alone(
    study: ClusterWorkspace, tmp_path: Path
) -> None:
    study.count([1], repeats=1, steps=5)
    driver = study.drive()
    output = study.end(driver)
    assert driver.returncode == 0, output
    copy = tmp_path / "its copy"
    subprocess.run(["cp", "-a", study.path, copy], check=True)
    run_dir = study.run_dir("count", RUNS[0])
    before = sorted(path.name for path in (run_dir / "records").iterdir())
    script = copy / run_dir.relative_to(study.path) / "job.sbatch"
    done = study.slurm.run("sbatch", "--wait", "--parsable", script, check=False)
    assert done.returncode != 0
    (log,) = run_dir.glob(f"logs/scheduler-{done.stdout.strip()}.log")
    said = f"argosy: this script is of the run in {run_dir} and not of this folder"
    assert log.read_text().startswith(said), log.read_text()
    assert sorted(path.name for path in (run_dir / "records").iterdir()) == before
    # Where there is no Slurm around it, it says what to do.
    by_hand = subprocess.run(["bash", script], capture_output=True, text=True)
    assert by_hand.returncode == 2
    assert by_hand.stderr == "argosy: this script is for Slurm; submit it: sbatch job.sbatch\n"


def test_an_interrupt_while_slurmctld_is_away_says_that_the_jobs_go_on(
    study: ClusterWorkspace,
) -> None:
    # The last here: after it comes back slurmctld starts no job for a minute.
    driver = study.drive()
    study.wait_for(lambda: study.steps_done(RUNS[0]) > 0, "the first run's steps")
    study.slurm.controller.stop()
    try:
        driver.send_signal(signal.SIGINT)
        output = study.end(driver)
    finally:
        study.slurm.controller.start()
    assert "The jobs could not be cancelled and go on" in output
    assert "Traceback" not in output

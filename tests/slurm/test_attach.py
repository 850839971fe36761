"""A driver that dies or is interrupted: no job is lost, and none is submitted twice."""

import signal
import subprocess
from pathlib import Path

import pytest
from cluster_workspace import ClusterWorkspace
from eight_runs import RUNS, accounted, finish, kill_with_jobs_in_flight

# A driver that is killed at a moment, and jobs that end at another, want a quiet machine.
pytestmark = [pytest.mark.quiet, pytest.mark.slurm, pytest.mark.timeout(400)]


@pytest.mark.thorough
def test_killed_with_eight_jobs_in_flight(eight_runs: ClusterWorkspace) -> None:
    kill_with_jobs_in_flight(
        eight_runs, lambda: eight_runs.steps_done(RUNS[0]) > 0, "the first run's steps"
    )
    finish(eight_runs)


def test_started_again_when_all_jobs_have_ended(eight_runs: ClusterWorkspace) -> None:
    """What completed while nobody looked is collected, though Snakemake takes it for a fragment."""
    eight_runs.count([1], repeats=8, steps=10)
    kill_with_jobs_in_flight(eight_runs, lambda: True, "nothing more")
    results = [eight_runs.run_dir("count", run) / "result.json" for run in RUNS]
    eight_runs.wait_for(lambda: all(path.exists() for path in results), "the ends of all jobs", 120)
    finish(eight_runs)


def test_a_second_driver_beside_the_first_is_refused(eight_runs: ClusterWorkspace) -> None:
    eight_runs.count([1], repeats=8, steps=30)
    driver = eight_runs.drive()
    eight_runs.wait_for(lambda: bool(eight_runs.jobs(RUNS[0])), "the first job")
    other = eight_runs.drive()
    output = eight_runs.end(other)
    assert other.returncode != 0
    assert (
        f"another snakemake manages the runs of testbed (process {driver.pid} on login)" in output
    )
    eight_runs.end(driver)
    assert driver.returncode == 0
    assert len(accounted(eight_runs)) == 8


def test_a_script_of_a_copied_project_leaves_the_project_alone(
    eight_runs: ClusterWorkspace, tmp_path: Path
) -> None:
    eight_runs.count([1], repeats=1, steps=5)
    driver = eight_runs.drive()
    output = eight_runs.end(driver)
    assert driver.returncode == 0, output
    copy = tmp_path / "its copy"
    subprocess.run(["cp", "-a", eight_runs.path, copy], check=True)
    run_dir = eight_runs.run_dir("count", RUNS[0])
    before = sorted(path.name for path in (run_dir / "records").iterdir())
    script = copy / run_dir.relative_to(eight_runs.path) / "job.sbatch"
    done = eight_runs.slurm.run("sbatch", "--wait", "--parsable", script, check=False)
    assert done.returncode != 0
    (log,) = run_dir.glob(f"logs/scheduler-{done.stdout.strip()}.log")
    said = f"argosy: this script belongs to the run in {run_dir}, not to this folder"
    assert log.read_text().startswith(said), log.read_text()
    assert sorted(path.name for path in (run_dir / "records").iterdir()) == before
    # Where there is no Slurm around it, it says what to do.
    by_hand = subprocess.run(["bash", script], capture_output=True, text=True)
    assert by_hand.returncode == 2
    assert by_hand.stderr == "argosy: this script is for Slurm; submit it: sbatch job.sbatch\n"


@pytest.mark.parametrize("choice", ["cancel", "leave"])
def test_an_interrupt_does_with_the_jobs_as_chosen(
    eight_runs: ClusterWorkspace, choice: str
) -> None:
    driver = eight_runs.drive("--argosy-on-interrupt", choice)
    eight_runs.wait_for(lambda: eight_runs.steps_done(RUNS[0]) > 0, "the first run's steps")
    driver.send_signal(signal.SIGINT)
    eight_runs.end(driver)
    queue = eight_runs.slurm.run("squeue", "-h", "--me", "-t", "PD,R", "-o", "%j").stdout.split()
    if choice == "cancel":
        assert queue == []
    else:
        assert queue, "the jobs that had not ended by then"
        finish(eight_runs)


@pytest.mark.thorough
def test_an_interrupt_while_slurmctld_is_away_says_that_the_jobs_go_on(
    eight_runs: ClusterWorkspace,
) -> None:
    # The last here: after it comes back slurmctld starts no job for a minute.
    driver = eight_runs.drive()
    eight_runs.wait_for(lambda: eight_runs.steps_done(RUNS[0]) > 0, "the first run's steps")
    eight_runs.slurm.controller.stop()
    try:
        driver.send_signal(signal.SIGINT)
        output = eight_runs.end(driver)
    finally:
        eight_runs.slurm.controller.start()
    assert "Cannot cancel the jobs, which continue to run" in output
    assert "Traceback" not in output

"""A driver that is interrupted does with its jobs what was chosen, and says what it could not."""

import signal

import pytest
from cluster_workspace import ClusterWorkspace
from eight_runs import RUNS, finish

# A driver that is interrupted while some jobs run and others wait wants a quiet machine.
pytestmark = [pytest.mark.quiet, pytest.mark.slurm, pytest.mark.timeout(400)]


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
    assert "The jobs could not be cancelled and go on" in output
    assert "Traceback" not in output

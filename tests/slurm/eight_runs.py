"""A study of eight runs whose driver dies or is interrupted, and what became of its jobs."""

import signal
from collections.abc import Callable

from cluster_workspace import ClusterWorkspace

RUNS = [f"nodes1-ranks1-repeat{repeat}" for repeat in range(1, 9)]


def accounted(study: ClusterWorkspace) -> list[str]:
    """The names of all jobs of this study that the accounts know."""
    text = study.slurm.run(
        "sacct", "-X", "-n", "-P", "--starttime=now-1hour", "--format=JobName,WorkDir"
    ).stdout
    rows = [line.split("|") for line in text.splitlines()]
    return sorted(name for name, folder in rows if folder.startswith(str(study.path)))


def kill_with_jobs_in_flight(study: ClusterWorkspace, when: Callable[[], bool], what: str) -> None:
    """Kill the driver of eight submitted jobs, once something has come about."""
    driver = study.drive()
    study.wait_for(lambda: all(study.jobs(run) for run in RUNS), "eight submitted jobs")
    study.wait_for(when, what)
    driver.send_signal(signal.SIGKILL)
    driver.wait()


def finish(study: ClusterWorkspace) -> None:
    """Drive the study to its end: each run has completed by the one job that it ever had."""
    driver = study.drive()
    output = study.end(driver)
    assert driver.returncode == 0, output
    for run in RUNS:
        assert study.result(run)["state"] == "completed"
        assert len(study.jobs(run)) == 1
    assert accounted(study) == [f"argosy-count-{run}" for run in RUNS]

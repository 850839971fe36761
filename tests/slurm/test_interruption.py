"""Warnings, checkpoints and requeues: a run goes on where it was, and each of its steps counts once."""

import json
import shutil
from pathlib import Path

import pytest
from cluster_workspace import COUNT, ClusterWorkspace

from argosy.results.tables import fetch, open_tables

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(400)]
RUN = "nodes2-ranks1-repeat1"
CHECKPOINTS = {"warning": "30s", "requeues": 3}


def recorded_steps(workspace: ClusterWorkspace) -> dict[int, list[int]]:
    """The steps of each rank as the tables have them."""
    with open_tables(workspace.path / "results/testbed/tables") as tables:
        rows = fetch(tables, "SELECT rank, step FROM steps ORDER BY rank, step")
    ranks = {row["rank"] for row in rows}
    return {rank: [row["step"] for row in rows if row["rank"] == rank] for rank in ranks}


def each_step_once(workspace: ClusterWorkspace, count: int) -> bool:
    """Whether rank 0, which saves, has each step once, and rank 1 none twice.

    The counting ranks do not wait for each other, as training ones do: rank 1 may have been a few steps
    behind what rank 0 saved.
    """
    steps = recorded_steps(workspace)
    assert steps[0] == [*range(count)]
    assert len(steps[1]) == len(set(steps[1])) > count - 10
    return True


def attempts(workspace: ClusterWorkspace) -> dict[str, str]:
    """The state of each attempt that has a verdict."""
    verdicts = workspace.run_dir("count", RUN).glob("attempts/*/verdict.json")
    found = [json.loads(path.read_text()) for path in sorted(verdicts)]
    return {each["attempt"]: each["state"] for each in found}


def test_a_warned_job_saves_and_goes_back_to_the_queue_and_on(workspace: ClusterWorkspace) -> None:
    workspace.count([2], steps=100, checkpoints=CHECKPOINTS)
    driver = workspace.drive()
    job = workspace.begun(driver, RUN)
    # What Slurm does before the time limit, sooner.
    workspace.slurm.run("scancel", "--batch", "--signal=USR1", job)
    output = workspace.end(driver)
    assert driver.returncode == 0, output
    states = attempts(workspace)
    assert states == {f"{job}.0": "interrupted", f"{job}.1": "completed"}
    assert "1 requeued" in output
    assert each_step_once(workspace, 100)
    [interrupted] = workspace.failures()
    assert interrupted["state"] == "interrupted"


@pytest.mark.thorough
def test_a_warning_before_anything_runs_is_kept(workspace: ClusterWorkspace) -> None:
    """Slurm warns up to a minute early, of a job of a minute at once."""
    (workspace.path / "slurm/testbed/job.sbatch.j2").write_text(
        '{% extends "job.sbatch.j2" %}\n{% block environment %}\n'
        '[ "${SLURM_RESTART_COUNT:-0}" != 0 ] || kill -USR1 "$$"\n{% endblock %}\n'
    )
    workspace.count([2], steps=100, checkpoints=CHECKPOINTS)
    driver = workspace.drive()
    output = workspace.end(driver)
    assert driver.returncode == 0, output
    assert [*attempts(workspace).values()] == ["interrupted", "completed"]
    assert each_step_once(workspace, 100)


@pytest.mark.thorough
def test_the_time_limit_warns_in_time(workspace: ClusterWorkspace) -> None:
    """A minute is the shortest limit. Slurm checks every 30 s, and warns up to 30 s early."""
    workspace.count([2], steps=420, checkpoints={"warning": "20s"}, resources={"time": "1m"})
    driver = workspace.drive()
    output = workspace.end(driver, 350)
    assert driver.returncode == 0, output
    states = [*attempts(workspace).values()]
    assert states[-1] == "completed"
    assert len(states) > 1
    assert set(states[:-1]) == {"interrupted"}
    assert each_step_once(workspace, 420)


def test_a_cancelled_job_stays_cancelled_and_a_later_one_goes_on(
    workspace: ClusterWorkspace,
) -> None:
    workspace.count([2], steps=60, checkpoints=CHECKPOINTS)
    driver = workspace.drive()
    workspace.wait_for(lambda: workspace.steps_done(RUN) > 25, "some steps")
    [job] = workspace.jobs(RUN)
    workspace.slurm.run("scancel", job["job_id"])
    output = workspace.end(driver)
    assert driver.returncode != 0
    assert "cancelled" in output or "interrupted" in output
    assert workspace.slurm.run("squeue", "-h", "--me").stdout == ""
    driver = workspace.drive()
    output = workspace.end(driver)
    assert driver.returncode == 0, output
    assert each_step_once(workspace, 60)
    second = workspace.jobs(RUN)[-1]["job_id"]
    claim = workspace.run_dir("count", RUN) / "attempts" / f"{second}.0" / "claim.json"
    assert json.loads(claim.read_text())["continues"]["step"] >= 20


@pytest.mark.thorough
def test_a_preempted_job_goes_on_where_it_was(workspace: ClusterWorkspace) -> None:
    in_partition(workspace.path, "low")
    workspace.count([2], steps=100, checkpoints=CHECKPOINTS)
    driver = workspace.drive()
    workspace.begun(driver, RUN)
    make_room(workspace)
    output = workspace.end(driver)
    assert driver.returncode == 0, output
    assert [*attempts(workspace).values()] == ["interrupted", "completed"]
    assert each_step_once(workspace, 100)


@pytest.mark.thorough
def test_a_rank_that_fails_for_a_preemption_goes_on_too(workspace: ClusterWorkspace) -> None:
    """The signal reaches the workers of a program as well, and it fails for want of them."""
    in_partition(workspace.path, "low")
    workspace.count([2], steps="100 --worker", checkpoints=CHECKPOINTS)
    driver = workspace.drive()
    workspace.wait_for(lambda: workspace.steps_done(RUN) > 15, "the first checkpoint")
    make_room(workspace)
    output = workspace.end(driver)
    assert driver.returncode == 0, output
    assert [*attempts(workspace).values()] == ["interrupted", "completed"]
    [claim] = workspace.run_dir("count", RUN).glob("attempts/*.1/claim.json")
    assert json.loads(claim.read_text())["continues"]["step"] >= 10


@pytest.mark.thorough
@pytest.mark.container
def test_in_a_container_ranks_have_the_time_to_save_that_they_were_promised(
    workspace: ClusterWorkspace, torch_digest: str
) -> None:
    """Slurm signals all processes of the job, the engine of the container among them."""
    in_partition(workspace.path, "low")
    shutil.copy(COUNT, workspace.path / "containers/workloads")
    command = "python3 /workloads/count.py --steps 100 --last-save-seconds 8"
    workspace.count(
        [2], runtime="container", image="torch-cpu", command=command, checkpoints=CHECKPOINTS
    )
    driver = workspace.drive()
    workspace.begun(driver, RUN)
    make_room(workspace)
    output = workspace.end(driver)
    assert driver.returncode == 0, output
    assert [*attempts(workspace).values()] == ["interrupted", "completed"]
    [warned] = workspace.run_dir("count", RUN).glob("records/*.0/warned")
    saved = workspace.run_dir("count", RUN).glob("checkpoints/*.0/*/checkpoint.json")
    assert max(path.stat().st_mtime for path in saved) > warned.stat().st_mtime + 7
    assert each_step_once(workspace, 100)


def make_room(workspace: ClusterWorkspace) -> None:
    """Have another job want all nodes for a moment."""
    workspace.slurm.run(
        "sbatch", "--partition=high", "--nodes=4", "--exclusive", "--output=/dev/null",
        input="#!/bin/bash\nsleep 2\n",
    )  # fmt: skip


def in_partition(project: Path, partition: str) -> None:
    """Have the testbed's jobs go there."""
    path = project / "slurm/testbed/site.yaml"
    path.write_text(path.read_text().replace("partition: main", f"partition: {partition}"))

"""Runs of a repeat in one job (`resources.same_allocation`), on a real cluster."""

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster
from cluster_workspace import COUNT, ClusterWorkspace
from workspace import BIN

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(900)]

NODES = (1, 2, 4)


def run_id(nodes: int, repeat: int = 1) -> str:
    return f"nodes{nodes}-ranks1-repeat{repeat}"


@pytest.fixture
def study(
    accounting_cluster: Cluster, make_cluster_workspace: Callable[..., ClusterWorkspace]
) -> Iterator[ClusterWorkspace]:
    """A project on a cluster that keeps accounts."""
    yield make_cluster_workspace(accounting_cluster, "a project; with $(odd) 'name' 100%")
    accounting_cluster.run("scancel", "--me")
    accounting_cluster.wait_until_idle()


def configure(study: ClusterWorkspace, repeats: int = 1, program: str = "", **more: Any) -> None:
    """Three sizes of the counting program, or of a shell's, which knows WORLD_SIZE."""
    command = f"{sys.executable} {COUNT} --steps {more.pop('steps', 20)}"
    study.configure(
        {
            "count": {
                "runtime": "native",
                "launcher": "plain",
                "independent": True,
                "command": f"bash -c {program!r}" if program else command,
                "scale": {"nodes": [*NODES], "repeats": repeats},
                "resources": {"time": "5m", "same_allocation": True, **more.pop("resources", {})},
                **({"throughput": "rate ([0-9]+)"} if program else {}),
                **more,
            }
        }
    )


def submitted(study: ClusterWorkspace) -> dict[str, str]:
    """The names of all jobs of this project that the accounts know, by their numbers."""
    fields = "--format=JobIDRaw,JobName,WorkDir"
    text = study.slurm.run("sacct", "-X", "-n", "-P", "--starttime=now-1hour", fields).stdout
    rows = [line.split("|") for line in text.splitlines()]
    return {number: name for number, name, folder in rows if folder.startswith(str(study.path))}


def finish(study: ClusterWorkspace) -> str:
    driver = study.drive()
    output = study.end(driver)
    assert driver.returncode == 0, output
    return output


def size_of(study: ClusterWorkspace, job_id: str) -> list[str]:
    """Nodes and minutes of a job, as the accounts have them."""
    fields = "--format=NNodes,TimelimitRaw"
    text = study.slurm.run("sacct", "-X", "-n", "-P", "-j", job_id, fields).stdout
    return text.strip().split("|")


def job_of(study: ClusterWorkspace, run: str) -> str:
    """The number of the only job that was submitted for a run."""
    (job,) = study.jobs(run)
    return str(job["job_id"])


def failed(nodes: int) -> str:
    """A program that fails on jobs of this size, and does a little on the others."""
    return f'test "$WORLD_SIZE" != {nodes} && sleep 1 && echo rate 5'


def test_sizes_of_a_repeat_are_measured_in_one_job_on_the_same_nodes(
    study: ClusterWorkspace,
) -> None:
    configure(study, repeats=2)
    finish(study)
    assert sorted(submitted(study).values()) == [
        f"argosy-count-allocation-repeat{repeat}" for repeat in (1, 2)
    ]
    for repeat in (1, 2):
        results = [study.result(run_id(nodes, repeat)) for nodes in NODES]
        assert [each["state"] for each in results] == ["completed"] * 3
        assert [len(set(each["hosts"])) for each in results] == [*NODES]
        # The smaller sizes have the first nodes of the largest.
        assert results[0]["hosts"] == results[2]["hosts"][:1]
        assert results[1]["hosts"] == results[2]["hosts"][:2]
        assert len({job_of(study, run_id(nodes, repeat)) for nodes in NODES}) == 1
        spans = sorted((each["started"], each["ended"]) for each in results)
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert "Nothing to be done" in finish(study)
    assert len(submitted(study)) == 2
    page = " ".join((study.path / "results/testbed/report.html").read_text().split())
    assert "2 jobs contained several runs each, one after another on the same nodes" in page
    status, output = study.run(BIN / "argosy", "status")
    assert status == 0
    assert output.count("completed") >= 6, output


def test_one_that_fails_leaves_the_others_and_is_done_again_alone(study: ClusterWorkspace) -> None:
    configure(study, program=failed(2))
    driver = study.drive("--keep-going")
    output = study.end(driver)
    assert driver.returncode != 0
    # Which of the two was the first, nobody knows.
    assert re.search(r"rank [01] \(node [01]\): exit code 1", output), output
    assert [study.result(run_id(nodes))["state"] for nodes in (1, 4)] == ["completed"] * 2
    first = job_of(study, run_id(2))
    study.slurm.wait_until_idle()
    # What failed is measured again, in a job of its own size; the others stay.
    driver = study.drive()
    study.end(driver)
    assert str(study.jobs(run_id(2))[0]["job_id"]) == first
    second = str(study.jobs(run_id(2))[1]["job_id"])
    # The accounts learn of a job's parts one after the other.
    study.wait_for(lambda: size_of(study, second) == ["2", "6"], "the account of that job")
    assert [len(study.jobs(run_id(nodes))) for nodes in (1, 4)] == [1, 1]


@pytest.mark.thorough
def test_the_table_tells_those_whose_turn_is_to_come_from_the_one_that_runs(
    study: ClusterWorkspace,
) -> None:
    configure(study, steps=60)
    driver = study.drive()
    study.wait_for(lambda: any(study.steps_done(run_id(each)) for each in NODES), "steps")
    status, output = study.run(BIN / "argosy", "status")
    assert status == 0
    assert "3 runs, 1 running, 2 pending" in output
    assert output.count("its job runs other runs first") == 2, output
    printed = study.end(driver)
    assert driver.returncode == 0, printed
    assert "2 pending (earlier runs of job" in printed, printed


@pytest.mark.thorough
def test_a_run_that_takes_too_long_ends_alone(study: ClusterWorkspace) -> None:
    program = 'test "$WORLD_SIZE" != 2 && echo rate 5 || sleep 300'
    configure(study, program=program, resources={"time": "1m"}, hang_timeout="off")
    driver = study.drive("--keep-going")
    output = study.end(driver, 400)
    assert driver.returncode != 0
    assert "ended by Slurm: time limit" in output, output
    assert [study.result(run_id(nodes))["state"] for nodes in (1, 4)] == ["completed"] * 2
    (name,) = submitted(study).values()
    assert name == "argosy-count-allocation-repeat1"


@pytest.mark.thorough
def test_a_job_that_a_dead_driver_left_is_found_again(study: ClusterWorkspace) -> None:
    configure(study, steps=60)
    driver = study.drive()
    study.wait_for(lambda: any(study.steps_done(run_id(each)) for each in NODES), "steps")
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    finish(study)
    assert len(submitted(study)) == 1
    assert [study.result(run_id(nodes))["state"] for nodes in NODES] == ["completed"] * 3


@pytest.mark.thorough
def test_a_job_whose_submission_nobody_noted_is_found_again(study: ClusterWorkspace) -> None:
    """The driver died between sbatch and its note, or sbatch's answer was lost."""
    # None ends before the next driver looks for them, on a busy machine as well.
    configure(study, steps=350)
    driver = study.drive()
    study.wait_for(lambda: all(study.jobs(run_id(each)) for each in NODES), "a submitted job")
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    for nodes in NODES:
        (study.run_dir("count", run_id(nodes)) / "job.json").unlink()
    finish(study)
    assert len(submitted(study)) == 1
    assert {job_of(study, run_id(nodes)) for nodes in NODES} == set(submitted(study))


@pytest.mark.thorough
def test_what_a_job_has_completed_is_not_done_again_when_it_is_requeued(
    study: ClusterWorkspace,
) -> None:
    # Slurm has to be asked before the next run has ended.
    configure(study, steps=100)
    driver = study.drive()
    folders = [study.run_dir("count", run_id(each)) for each in NODES]
    study.wait_for(lambda: any((each / "result.json").exists() for each in folders), "a result")
    study.wait_for(
        lambda: any(
            study.steps_done(each.name) and not (each / "result.json").exists() for each in folders
        ),
        "steps of the next",
    )
    (job_id,) = submitted(study)
    study.slurm.run("scontrol", "requeue", job_id)
    output = study.end(driver, 400)
    assert driver.returncode == 0, output
    assert list(submitted(study)) == [job_id]
    ended = sorted((study.result(each.name) for each in folders), key=lambda each: each["ended"])
    assert [each["state"] for each in ended] == ["completed"] * 3
    assert [each["attempt"] for each in ended] == [f"{job_id}.0", f"{job_id}.1", f"{job_id}.1"]
    [failure] = study.failures()
    assert failure["attempt"] == f"{job_id}.0"
    assert failure["cause"] == f"superseded: the run was started again as {job_id}.1"


@pytest.mark.thorough
def test_an_interrupt_cancels_the_job_of_all(study: ClusterWorkspace) -> None:
    configure(study, steps=100)
    driver = study.drive()
    study.wait_for(lambda: any(study.steps_done(run_id(each)) for each in NODES), "steps")
    driver.send_signal(signal.SIGINT)
    study.end(driver)
    assert study.slurm.run("squeue", "-h", "--me", "-t", "PD,R").stdout == ""
    study.slurm.wait_until_idle()
    configure(study, steps=10)
    finish(study)
    assert len(submitted(study)) == 2


@pytest.mark.thorough
def test_a_script_that_was_changed_since_is_left_out(study: ClusterWorkspace) -> None:
    """A study that changes while its job waits is measured in another job; the old one measures nothing."""
    configure(study, steps=10)
    finish(study)
    script = study.run_dir("count", "allocation-repeat1") / "job.sbatch"
    one = study.run_dir("count", run_id(1))
    records = sorted(each.name for each in (one / "records").iterdir())
    for nodes in NODES:
        own = study.run_dir("count", run_id(nodes)) / "job.sbatch"
        own.write_text(own.read_text() + "# changed\n")
    done = study.slurm.run("sbatch", "--wait", "--parsable", script, cwd="/", check=False)
    assert done.returncode == 2
    log = script.parent / "logs" / f"scheduler-{done.stdout.strip()}.log"
    assert log.read_text().count("has changed since the submission: left out") == 3
    assert sorted(each.name for each in (one / "records").iterdir()) == records


@pytest.mark.thorough
def test_a_script_of_a_copied_project_leaves_the_project_alone(
    study: ClusterWorkspace, tmp_path: Path
) -> None:
    configure(study, steps=5)
    finish(study)
    folder = study.run_dir("count", "allocation-repeat1")
    copy = tmp_path / "its copy"
    subprocess.run(["cp", "-a", study.path, copy], check=True)
    done = study.slurm.run(
        "sbatch", "--wait", "--parsable", copy / folder.relative_to(study.path) / "job.sbatch",
        check=False,
    )  # fmt: skip
    assert done.returncode == 2
    said = (folder / "logs" / f"scheduler-{done.stdout.strip()}.log").read_text()
    assert said == f"argosy: this script belongs to the runs in {folder}, not to this folder\n"
    # Where there is no Slurm around it, it says what to do.
    by_hand = subprocess.run(["bash", folder / "job.sbatch"], capture_output=True, text=True)
    assert by_hand.returncode == 2
    assert by_hand.stderr == "argosy: this script is for Slurm; submit it: sbatch job.sbatch\n"
    shutil.rmtree(copy)


def test_slurm_is_asked_for_the_whole_job_before_anything_runs(study: ClusterWorkspace) -> None:
    """Each run alone fits the partition, all together do not."""
    site = study.path / "slurm/testbed/site.yaml"
    text = site.read_text()
    site.write_text(text.replace("limits: [{nodes: 4, time: 1d}]", "limits: [{nodes: 4}]"))
    assert site.read_text() != text
    configure(study, resources={"time": "10h"})
    driver = study.drive()
    output = " ".join(study.end(driver).split())
    assert driver.returncode != 0
    assert "config.yaml: experiments.count.resources.time" in output, output
    assert "count/allocation-repeat1" in output, output
    assert not any(study.jobs(run_id(nodes)) for nodes in NODES)

"""Limits that other jobs fill are waited for; a job that exceeds one by itself is told so."""

import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest
from cluster import Cluster
from cluster_workspace import TESTBED, ClusterWorkspace, edit_site
from workspace import BIN

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(400)]
NO_LIMITS = {
    "user": ("MaxSubmitJobs=-1", "MaxJobs=-1", "GrpTRES=node=-1"),
    "qos": (
        *("MaxSubmitJobsPerUser=-1", "GrpSubmitJobs=-1", "MaxTRESPerUser=node=-1"),
        *("MaxWall=-1", "GrpTRES=node=-1", "Flags=-1"),
    ),
}


@pytest.fixture
def limited(
    accounting_cluster: Cluster, make_cluster_workspace: Callable[..., ClusterWorkspace]
) -> Iterator[ClusterWorkspace]:
    """A project where accounts have limits; they are taken away when the test is over."""
    workspace = make_cluster_workspace(accounting_cluster)
    yield workspace
    user = accounting_cluster.settings.user
    modify(workspace, "user", user, *NO_LIMITS["user"], "where", "account=project")
    modify(workspace, "qos", "long", *NO_LIMITS["qos"])
    accounting_cluster.run("scancel", "--me")
    accounting_cluster.wait_until_idle()


def modify(workspace: ClusterWorkspace, kind: str, name: str, *changes: str) -> None:
    workspace.slurm.run("sacctmgr", "-i", "modify", kind, name, "set", *changes, check=False)


def limit_user(workspace: ClusterWorkspace, *changes: str) -> None:
    name = workspace.slurm.settings.user
    modify(workspace, "user", name, *changes, "where", "account=project")


def other_job(workspace: ClusterWorkspace, seconds: int, *options: str) -> str:
    """Submit a job that is none of the study's: its number."""
    wrap = f"--wrap=sleep {seconds}"
    said = workspace.slurm.run("sbatch", "--parsable", "--output=/dev/null", *options, wrap)
    return said.stdout.strip()


def until(driver: "subprocess.Popen[str]", words: str) -> str:
    """Return what a driver prints until it has said these words."""
    said = ""
    assert driver.stdout
    for line in driver.stdout:
        said += line
        if words in line:
            return said
    raise AssertionError(f"`{words}` was not said:\n{said}")


@pytest.mark.parametrize(
    ("change", "qos", "words"),
    [
        (
            "MaxSubmitJobs=1",
            "",
            "have reached the account's limit per user (AssocMaxSubmitJobLimit)",
        ),
        ("MaxSubmitJobsPerUser=1", "long", "QoS's limit per user (QOSMaxSubmitJobPerUserLimit)"),
        ("GrpSubmitJobs=1", "long", "this QoS in the queue have reached its limit (QOSGrpSubmit"),
    ],
)
def test_other_jobs_fill_the_limit(
    limited: ClusterWorkspace, change: str, qos: str, words: str
) -> None:
    """With two runs and a limit of one, of the two the second waits for the first, too."""
    limited.count([1, 2], steps=5)
    options = (f"--qos={qos}",) if qos else ()
    if qos:
        edit_site(limited, options__qos=qos)
    other = other_job(limited, 300, *options)
    if qos:
        modify(limited, "qos", qos, change)
    else:
        limit_user(limited, change)
    driver = limited.drive()
    output = until(driver, "2 not yet submitted")
    limited.slurm.run("scancel", other)
    output += limited.end(driver)
    assert driver.returncode == 0, output
    assert words in output
    assert "resources.time" not in output
    assert "Slurm refuses" not in output


@pytest.mark.thorough
def test_the_doctor_waits_for_a_place(limited: ClusterWorkspace) -> None:
    """Its looks are jobs as well, and the limit has room for one."""
    hardware = {"cores": 4, "memory": "3900M", "architecture": "x86_64"}
    edit_site(limited, hardware__other=hardware, queues__main__hardware=["cpu", "other"])
    limit_user(limited, "MaxSubmitJobs=1")
    status, output = limited.run(BIN / "argosy", "doctor", "testbed", "--wait", "2m")
    assert status == 0 and "refused" not in output, output


def test_a_job_that_no_limit_ever_lets_run(limited: ClusterWorkspace) -> None:
    """Nobody else runs: the limit is less than what the job asks for."""
    modify(limited, "qos", "long", "MaxTRESPerUser=node=1")
    limited.count([2])
    edit_site(limited, options__qos="long")
    driver = limited.drive("--argosy-poll-seconds", "1")
    output = until(driver, "waiting will not help")
    assert "exceeds your limit of the QoS; request less" in output
    status, told = limited.run(BIN / "argosy", "status")
    assert status == 0 and "exceeds your limit of the QoS" in told
    driver.send_signal(signal.SIGINT)
    limited.end(driver)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("limit", "key"),
    [
        ("MaxTRESPerUser=node=1", "config.yaml: experiments.count.scale.nodes"),
        ("MaxWall=1:00", "config.yaml: experiments.count.resources.time"),
    ],
)
def test_a_qos_that_denies_beyond_its_limit(
    limited: ClusterWorkspace, limit: str, key: str
) -> None:
    modify(limited, "qos", "long", limit, "Flags=DenyOnLimit")
    limited.count([2])
    edit_site(limited, options__qos="long")
    driver = limited.drive()
    output = limited.end(driver)
    assert driver.returncode != 0
    [line] = [line for line in output.splitlines() if line.startswith("error: ")]
    assert line.startswith(f"error: {key}, or {TESTBED}: options.qos: Slurm refuses"), line


@pytest.mark.thorough
def test_a_reservation_that_has_not_begun_is_waited_for(limited: ClusterWorkspace) -> None:
    user = limited.slurm.settings.user
    limited.slurm.run(
        *("scontrol", "create", "reservation", "reservationname=later", f"users={user}"),
        *("starttime=now+2minutes", "duration=60", "nodes=node4"),
    )
    try:
        limited.count([1], steps=5)
        edit_site(limited, options__reservation="later")
        driver = limited.drive()
        output = until(driver, "1 pending (Reservation 1)")
        limited.slurm.run("scontrol", "update", "reservationname=later", "starttime=now")
        output += limited.end(driver)
    finally:
        limited.slurm.run("scancel", "--me")
        limited.slurm.run("scontrol", "delete", "reservationname=later", check=False)
    assert driver.returncode == 0, output
    assert "it will wait: the reservation later begins at 20" in output
    assert f"{TESTBED}: options.reservation" in output

"""Slurm's commands behind wrappers of a site, which print greetings around every answer."""

import os
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import replace

import pytest
from cluster_workspace import TESTBED, ClusterWorkspace
from workspace import BIN

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(400)]

COMMANDS = ("sbatch", "squeue", "sacct", "sinfo", "scontrol", "sacctmgr", "scancel")
GREETS = """#!/bin/bash
printf 'Welcome to the cluster: '
printf '%s\\n' '' '  [INFO] 2026: 17 jobs, 4 | 5 | 6 |' 'Submitted batch job requests are counted' 123abc
echo "[INFO] unable to contact slurm controller is a known message, so is invalid qos" >&2
out=$({path} "$@" 2> >(sed 's/^/ /; s/^ //' >&2)); code=$?
sleep 0.1
while IFS= read -r line; do
    printf '%s\\n' "$line" '[INFO] still working | please | wait |'
done <<<"$out"
echo "Bye | see you | at | the | user | meeting |"
exit $code
"""
SWALLOWS = """#!/bin/bash
case "$*" in *--test-only*) exec {path} "$@" ;; esac
echo "Welcome to the cluster, user 7 of 12"
{path} "$@" >/dev/null
"""
FAILS_AFTERWARDS = """#!/bin/bash
case "$*" in *--test-only*) exec {path} "$@" ;; esac
{path} "$@"
echo "wrapper: the mail to you could not be sent" >&2
exit 1
"""
IS_SILENT = """#!/bin/bash
[ -e {folder}/speaks ] && exec {path} "$@"
exit 0
"""


def behind(workspace: ClusterWorkspace, wrappers: Mapping[str, str]) -> ClusterWorkspace:
    """The same workspace with wrappers of these commands first on the PATH."""
    folder = workspace.path / "wrappers"
    folder.mkdir()
    for command, text in wrappers.items():
        path = folder / command
        real = str(shutil.which(command, path="/usr/bin:/bin"))
        path.write_text(text.replace("{path}", real).replace("{folder}", shlex.quote(str(folder))))
        path.chmod(0o755)
    variables = {"PATH": f"{folder}{os.pathsep}{workspace.environment['PATH']}"}
    return replace(workspace, environment={**workspace.environment, **variables})


def submitted(workspace: ClusterWorkspace) -> int:
    """How many jobs of the study Slurm has had."""
    said = workspace.slurm.run("squeue", "--me", "--states=all", "--noheader", "--format=%Z")
    return sum(line.startswith(f"{workspace.path}/results/") for line in said.stdout.splitlines())


def test_greetings_around_every_answer(workspace: ClusterWorkspace) -> None:
    greeted = behind(workspace, dict.fromkeys(COMMANDS, GREETS))
    greeted.count([1, 2], repeats=2)
    driver = greeted.drive()
    output = greeted.end(driver)
    assert driver.returncode == 0, output
    assert "Traceback" not in output
    assert submitted(workspace) == 4
    status, output = greeted.run(BIN / "argosy", "status")
    assert status == 0 and "4 runs, 4 completed" in output, output

    status, output = greeted.run(BIN / "argosy", "site", "probe", "greeted")
    assert status == 0, output
    found = (greeted.path / "slurm/greeted/site.yaml").read_text()
    assert "cluster_name: bed" in found and "partition: short" in found
    status, output = greeted.run(BIN / "argosy", "doctor", "testbed")
    assert status == 0 and "wrong" not in output, output


def test_a_refusal_is_told_from_the_greeting_before_it(workspace: ClusterWorkspace) -> None:
    greeted = behind(workspace, dict.fromkeys(COMMANDS, GREETS))
    greeted.count([1])
    site = greeted.path / TESTBED
    site.write_text(site.read_text().replace("partition: main", "partition: nowhere"))
    driver = greeted.drive()
    output = greeted.end(driver)
    assert driver.returncode != 0
    assert f"error: {TESTBED}: queues.main.options.partition: Slurm refuses" in output, output
    assert "qos" not in output


@pytest.mark.parametrize("wrapper", [SWALLOWS, FAILS_AFTERWARDS])
def test_a_job_whose_number_is_lost_is_found_and_not_submitted_again(
    workspace: ClusterWorkspace, wrapper: str
) -> None:
    greeted = behind(workspace, {"sbatch": wrapper})
    greeted.count([1, 2])
    driver = greeted.drive()
    output = greeted.end(driver)
    assert driver.returncode == 0, output
    assert submitted(workspace) == 2
    assert workspace.jobs("nodes2-ranks1-repeat1")[0]["job_id"].isdigit()


def test_a_job_that_ends_before_its_number_is_known_is_not_submitted_again(
    workspace: ClusterWorkspace,
) -> None:
    greeted = behind(workspace, {"sbatch": f"{SWALLOWS}sleep 12\n"})
    greeted.count([1], steps=2)
    driver = greeted.drive()
    output = greeted.end(driver)
    assert driver.returncode == 0, output
    assert submitted(workspace) == 1


def test_a_queue_that_says_nothing_is_no_empty_queue(workspace: ClusterWorkspace) -> None:
    greeted = behind(workspace, {"squeue": IS_SILENT, "sacct": IS_SILENT})
    speaks = greeted.path / "wrappers/speaks"
    speaks.touch()
    greeted.count([1], steps=100)
    driver = greeted.drive()
    run = "nodes1-ranks1-repeat1"
    greeted.wait_for(lambda: bool(greeted.jobs(run)), "the job is submitted")
    speaks.unlink()
    greeted.wait_for(lambda: greeted.steps_done(run) > 40, "it runs")
    speaks.touch()
    output = greeted.end(driver)
    assert driver.returncode == 0, output
    assert submitted(workspace) == 1
    assert greeted.result(run)["state"] == "completed"


def test_another_cluster_is_refused_at_once(workspace: ClusterWorkspace) -> None:
    workspace.count([1])
    elsewhere = replace(workspace, environment={**workspace.environment, "SLURM_CLUSTERS": "far"})
    driver = elsewhere.drive()
    output = elsewhere.end(driver)
    assert driver.returncode != 0
    assert "SLURM_CLUSTERS is far, and Argosy's jobs go to bed" in output, output
    assert submitted(workspace) == 0

    here = replace(workspace, environment={**workspace.environment, "SLURM_CLUSTERS": "bed"})
    driver = here.drive()
    output = here.end(driver)
    assert driver.returncode == 0, output

    site = workspace.path / TESTBED
    text = site.read_text()
    for key in ("clusters", "cluster", "cluster-constraint"):
        site.write_text(f"{text}\noptions: {{{key}: far}}\n")
        driver = workspace.drive()
        output = workspace.end(driver)
        assert driver.returncode != 0
        assert f"{TESTBED}: options.{key}" in output and "Traceback" not in output, output


def test_the_site_of_another_cluster_is_refused(workspace: ClusterWorkspace) -> None:
    workspace.count([1])
    site = workspace.path / TESTBED
    site.write_text(f"{site.read_text()}\ncluster_name: far\n")
    driver = workspace.drive()
    output = workspace.end(driver)
    assert driver.returncode != 0
    assert f"{TESTBED}: cluster_name: is far, but Slurm's commands here reach bed" in output
    assert submitted(workspace) == 0

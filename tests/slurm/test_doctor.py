"""Each planted fault is named by one check, with its key and what to do, and a right site has no fault."""

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from cluster_workspace import ClusterWorkspace, edit_site
from workspace import BIN

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(400)]
SITE = "slurm/testbed/site.yaml"

Plant = Callable[[ClusterWorkspace], AbstractContextManager[None]]


@pytest.fixture(autouse=True)
def all_nodes_take_jobs(workspace: ClusterWorkspace) -> None:
    """A node that was drained, or that did not answer for a moment, is taken back some time later."""

    def taken() -> bool:
        ask = ("sbatch", "--test-only", "--nodes=4", "--wrap=true")
        return workspace.slurm.run(*ask, check=False).returncode == 0

    workspace.wait_for(taken, "Slurm takes a job of all nodes")


def examine(
    study: ClusterWorkspace, *options: str, command: tuple[str, ...] = (), site: str = "testbed"
) -> list[dict[str, str]]:
    """What the doctor finds; its exit status says whether anything is wrong."""
    driver = study.start(*command, BIN / "argosy", "doctor", site, "--json", *options)
    output = study.end(driver)
    assert "Traceback" not in output, output
    found: list[dict[str, str]] = json.loads(output[output.index("[\n") :])
    is_wrong = any(each["verdict"] == "wrong" for each in found)
    assert driver.returncode == (1 if is_wrong else 0), output
    return found


def complaint(found: list[dict[str, str]]) -> dict[str, str]:
    """The only finding that is not right, besides what could not be looked at."""
    bad = [each for each in found if each["verdict"] in ("wrong", "warning")]
    assert len(bad) == 1, bad
    assert bad[0]["remedy"]
    return bad[0]


def edit(**changes: Any) -> Plant:
    """Change keys of the site's file; a dotted one, written with __."""

    def plant(study: ClusterWorkspace) -> AbstractContextManager[None]:
        edit_site(study, **changes)
        return nullcontext()

    return plant


def update(*words: str, back: str) -> Plant:
    """Change a node or a partition for the time of the test."""

    @contextmanager
    def planted(study: ClusterWorkspace) -> Iterator[None]:
        study.slurm.run("scontrol", "update", *words)
        try:
            yield
        finally:
            study.slurm.run("scontrol", "update", words[0], back)

    return planted


FROM_HERE: list[tuple[str, Plant, str, tuple[str, ...]]] = [
    ("loopback", edit(interface="lo"), "queue main-cpu", ("interface: lo is local to each node",)),
    (
        "partition",
        edit(queues__main__options__partition="mian"),
        "queue main-cpu",
        ("queues.main.options.partition", "mian"),
    ),
    (
        "cores",
        edit(hardware__cpu__cores=64),
        "queue main-cpu",
        ("hardware", "cpus-per-task=64", "the largest has 4 CPUs"),
    ),
    (
        "memory",
        edit(hardware__cpu__memory="90G"),
        "queue main-cpu",
        ("hardware", "mem=92160M", "the largest has 4000M"),
    ),
    (
        "type of GPU",
        edit(hardware__cpu__gpus=4, hardware__cpu__options={"gres": "gpu:h900:{gpus}"}),
        "queue main-cpu",
        ("hardware.cpu.options.gres",),
    ),
    (
        "generic resource",
        edit(options={"gres": "fpga:1"}),
        "queue main-cpu",
        ("options.gres",),
    ),
    ("feature", edit(options={"constraint": "moon"}), "queue main-cpu", ("options.constraint",)),
    (
        "time",
        edit(queues__main__limits=[{"nodes": 4, "time": "9d"}]),
        "queue main-cpu",
        ("time limit",),
    ),
    ("nodes", edit(queues__main__limits=[{"nodes": 9}]), "queue main-cpu", ("nodes",)),
    (
        "reservation",
        edit(options={"reservation": "none"}),
        "queue main-cpu",
        ("options.reservation",),
    ),
    (
        "closed partition",
        update("partitionname=main", "state=down", back="state=up"),
        "queue main-cpu",
        ("the site has closed the partition main",),
    ),
    (
        "drained nodes",
        update("nodename=node[1-3]", "state=drain", "reason=hot", back="state=resume"),
        "queue main-cpu",
        ("3 accept no jobs now", "hot"),
    ),
]


@pytest.mark.parametrize(
    ("plant", "check", "words"),
    [each[1:] for each in FROM_HERE],
    ids=[each[0] for each in FROM_HERE],
)
def test_a_fault_that_the_login_node_can_see(
    workspace: ClusterWorkspace, plant: Plant, check: str, words: tuple[str, ...]
) -> None:
    with plant(workspace):
        found = complaint(examine(workspace, "--no-job"))
    assert found["check"] == check
    for word in words:
        assert word in found["evidence"]


def hide(folder: str) -> Plant:
    """The second node does not see a folder of the project, or of its store."""

    def planted(study: ClusterWorkspace) -> AbstractContextManager[None]:
        path = Path(study.environment["ARGOSY_STORE"]) if folder == "store" else study.path / folder
        path.mkdir(exist_ok=True)
        return study.slurm.node(2).without(path)

    return planted


@contextmanager
def leads_nowhere(study: ClusterWorkspace) -> Iterator[None]:
    """Each node has an interface whose cable nobody holds the other end of."""
    edit(interface="ib9")(study)
    with ExitStack() as after:
        for number, node in enumerate(study.slurm.nodes[:2], start=1):
            node.administer("ip", "link", "add", "ib9", "type", "veth", "peer", "name", "ib9-far")
            node.administer("ip", "address", "add", f"10.99.0.{number}/24", "dev", "ib9")
            node.administer("ip", "link", "set", "ib9", "up")
            node.administer("ip", "link", "set", "ib9-far", "up")
            after.callback(node.administer, "ip", "link", "delete", "ib9")
        yield


@contextmanager
def firewall(study: ClusterWorkspace) -> Iterator[None]:
    """The first node takes nothing from the second over the fast network."""
    edit(interface="hs0")(study)
    first = study.slurm.node(1)
    first.administer("ip", "route", "add", "blackhole", "10.88.0.2/32")
    try:
        yield
    finally:
        first.administer("ip", "route", "delete", "blackhole", "10.88.0.2/32")


def another_folder(name: str, number: int = 2) -> Plant:
    """A node has a file system of its own where the project has that folder, and can write to it."""

    @contextmanager
    def planted(study: ClusterWorkspace) -> Iterator[None]:
        path = study.path / name
        path.mkdir(exist_ok=True)
        node = study.slurm.node(number)
        node.administer("mount", "-t", "tmpfs", "-o", "mode=1777", "none", str(path))
        try:
            yield
        finally:
            node.administer("umount", str(path))

    return planted


@contextmanager
def shut_off(study: ClusterWorkspace) -> Iterator[None]:
    """The third of the nodes answers nobody on the fast network; the first two reach each other."""
    edit(interface="hs0")(study)
    third = study.slurm.node(3)
    others = [f"10.88.0.{number}/32" for number in (1, 2, 4)]
    for other in others:
        third.administer("ip", "route", "add", "blackhole", other)
    try:
        yield
    finally:
        for other in others:
            third.administer("ip", "route", "delete", "blackhole", other)


@contextmanager
def read_only(study: ClusterWorkspace) -> Iterator[None]:
    """No node can write into the project."""
    path = str(study.path)
    for node in study.slurm.nodes:
        node.administer("mount", "--bind", path, path)
        node.administer("mount", "-o", "remount,bind,ro", path)
    try:
        yield
    finally:
        for node in study.slurm.nodes:
            node.administer("umount", path)


@contextmanager
def without_python(study: ClusterWorkspace) -> Iterator[None]:
    """One node has no Python that runs."""
    programs = {str(Path(each).resolve()) for each in (sys.executable, "/usr/bin/python3")}
    second = study.slurm.node(2)
    for each in programs:
        second.administer("mount", "--bind", "/bin/false", each)
    try:
        yield
    finally:
        for each in programs:
            second.administer("umount", each)


FROM_NODES: list[tuple[str, Plant, str, tuple[str, ...]]] = [
    ("no such interface", edit(interface="hsn7"), "interface", ("has no hsn7",)),
    (
        "an interface that leads nowhere",
        leads_nowhere,
        "interface",
        ("do not reach each other over ib9", "they do over eth0, hs0"),
    ),
    (
        "a firewall",
        firewall,
        "interface",
        ("do not reach each other over hs0", "they do over eth0"),
    ),
    ("suffix", edit(host_suffix="-ib.invalid"), "interface", ("host_suffix: node",)),
    (
        "no scratch",
        edit(tmpdir="/no/scratch"),
        "tmpdir",
        ("tmpdir: is /no/scratch", "does not have"),
    ),
    ("variable", edit(tmpdir="$NO_SCRATCH/x"), "tmpdir", ("a variable that jobs on node1 lack",)),
    ("read-only scratch", edit(tmpdir="/proc"), "tmpdir", ("where node1 cannot write",)),
    (
        "a folder for images",
        edit(images={"stage": "node", "folder": "/no/disk"}),
        "images.folder",
        ("images.folder: is /no/disk",),
    ),
    ("a node that is shut off", shut_off, "interface", ("node3", "over hs0", "they do over eth0")),
    (
        "another results folder",
        another_folder("results"),
        "files",
        ("on node2", "results is not the login node's folder"),
    ),
    ("another project", another_folder("."), "nodes cpu", ("node2 does not see",)),
    ("read-only project", read_only, "nodes cpu", ("cannot write to it",)),
    ("no Python", without_python, "nodes cpu", ("node2 has no Python",)),
    ("results", hide("results"), "files", ("on node2", "results")),
    ("store", hide("store"), "files", ("on node2", "is missing")),
    (
        "architecture",
        edit(hardware__cpu__architecture="aarch64"),
        "architecture cpu",
        ("hardware.cpu.architecture: is aarch64, but node1 is x86_64",),
    ),
    (
        "GPUs that are none",
        edit(
            hardware__cpu__gpus=4,
            hardware__cpu__options={"gres": "gpu:a100:{gpus}"},
            queues__main__limits=[{"nodes": 2}],
        ),
        "GPUs cpu",
        ("found none",),
    ),
]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("plant", "check", "words"),
    [each[1:] for each in FROM_NODES],
    ids=[each[0] for each in FROM_NODES],
)
def test_a_fault_that_only_nodes_can_see(
    workspace: ClusterWorkspace, plant: Plant, check: str, words: tuple[str, ...]
) -> None:
    with plant(workspace):
        found = complaint(examine(workspace))
    assert found["check"] == check
    for word in words:
        assert word in found["evidence"]


def test_a_right_site_has_no_fault(workspace: ClusterWorkspace) -> None:
    found = examine(workspace)
    assert {each["verdict"] for each in found} == {"ok"}
    checks = {each["check"] for each in found}
    assert {"site file", "profile", "images", "queue main-cpu", "interface", "engine"} <= checks
    # As people read it.
    driver = workspace.start(BIN / "argosy", "doctor", "testbed", "--no-job")
    output = workspace.end(driver)
    assert "ok       profile: slurm/testbed/config.yaml chooses this site\n" in output
    assert output.splitlines()[-1].startswith("9 checks: 1 unknown, 8 ok")


def test_one_fault_of_all_queues_is_said_once(workspace: ClusterWorkspace) -> None:
    driver = workspace.start(BIN / "argosy", "doctor", "lumi", "--no-job")
    output = workspace.end(driver)
    assert driver.returncode == 1
    [line] = [line for line in output.splitlines() if line.startswith("wrong ")]
    assert "slurm/lumi/site.yaml: account: this site requires one" in line
    assert "(the same for standard-cpu, " in line


def test_this_machine_needs_no_profile(workspace: ClusterWorkspace) -> None:
    assert {each["verdict"] for each in examine(workspace, site="local")} == {"ok"}


def test_where_there_is_no_slurm(workspace: ClusterWorkspace, tmp_path: Path) -> None:
    found = complaint(examine(workspace, command=("env", f"PATH={tmp_path}:/nowhere")))
    assert found["check"] == "queue main-cpu"
    assert "there is no `scontrol` on this machine" in found["evidence"]


def test_a_store_that_cannot_be_written_to(workspace: ClusterWorkspace) -> None:
    found = complaint(examine(workspace, command=("env", "ARGOSY_STORE=/proc/store")))
    assert found["check"] == "store"


def test_a_job_that_never_starts(workspace: ClusterWorkspace) -> None:
    workspace.slurm.run("sbatch", "--exclusive", "-N4", "-o", "/dev/null", "--wrap=sleep 60")
    found = examine(workspace, "--wait", "2s")
    [unknown] = [each for each in found if each["verdict"] != "ok"]
    assert (unknown["check"], unknown["verdict"]) == ("nodes cpu", "unknown")
    assert "was cancelled" in unknown["evidence"]


def test_a_site_that_is_not_there(workspace: ClusterWorkspace) -> None:
    status, output = workspace.run(BIN / "argosy", "doctor", "kestrel", "--json")
    assert status == 2
    assert "error: slurm/kestrel/site.yaml: there is no such site" in output


@pytest.mark.thorough
def test_a_site_that_says_no_limits_is_looked_at_by_several_nodes(
    workspace: ClusterWorkspace,
) -> None:
    edit_site(workspace, queues__main__limits=[])
    found = {each["check"]: each for each in examine(workspace)}
    assert {each["verdict"] for each in found.values()} == {"ok"}
    assert "node1, node2, node3, node4 reach each other both ways" in found["interface"]["evidence"]
    assert "no other node was tried" in found["interface"]["evidence"]


@pytest.mark.thorough
def test_only_as_many_nodes_are_looked_at_as_are_free(workspace: ClusterWorkspace) -> None:
    workspace.slurm.run(
        *("sbatch", "--exclusive", "-N1", "--nodelist=node4", "-o", "/dev/null", "--wrap=sleep 300")
    )
    found = {each["check"]: each for each in examine(workspace)}
    assert "node1, node2, node3 reach each other" in found["interface"]["evidence"]


def test_jobs_of_the_look_leave_nothing_in_the_project(workspace: ClusterWorkspace) -> None:
    examine(workspace)
    for folder in (workspace.path, workspace.path / "results"):
        assert not [*folder.glob(".argosy-look-*")]


def test_runs_that_get_nowhere_are_said_by_the_doctor_too(workspace: ClusterWorkspace) -> None:
    edit_site(workspace, queues__main__only_by_name=True)
    found = complaint(examine(workspace, "--no-job"))
    assert found["check"] == "runs"
    assert (
        "no queue accepts 1 node for 10m on cpu: main: only for runs that name it"
        in found["evidence"]
    )
    assert "write `queue: main`" in found["remedy"]


def test_runs_that_slurm_refuses_are_said_with_their_key(workspace: ClusterWorkspace) -> None:
    edit_site(workspace, hardware__cpu__options={"constraint": "moon"})
    # The queue itself is asked with the same options, so it tells; a run's own are asked besides.
    assert complaint(examine(workspace, "--no-job"))["check"] == "queue main-cpu"
    edit_site(workspace, hardware__cpu__options={})
    workspace.count([1, 2], resources={"memory_per_rank": "90G"})
    edit_site(workspace, hardware__cpu__memory=None)
    found = complaint(examine(workspace, "--no-job"))
    assert found["check"] == "runs"
    assert "experiments.count.resources.memory_per_rank" in found["evidence"]


def shadow(study: ClusterWorkspace, program: str, script: str) -> tuple[str, ...]:
    """A command that runs with a script in a program's place; `$REAL` is the program."""
    folder = study.path.parent / "shadow"
    folder.mkdir()
    real = shutil.which(program)
    (folder / program).write_text(f"#!/bin/sh\nREAL={real}\n{script}\n")
    (folder / program).chmod(0o755)
    return ("env", f"PATH={folder}:{os.environ['PATH']}")


@pytest.mark.thorough
def test_what_nodes_wrote_counts_before_a_queue_that_answers_slowly(
    workspace: ClusterWorkspace,
) -> None:
    slow = shadow(workspace, "squeue", 'sleep 60; exec "$REAL" "$@"')
    found = examine(workspace, "--wait", "15s", command=slow)
    assert {each["verdict"] for each in found} == {"ok"}


@pytest.mark.thorough
def test_a_job_that_no_waiting_helps_is_given_up_at_once(workspace: ClusterWorkspace) -> None:
    spent = '"$REAL" "$@" | sed -E "s/Resources|Priority/AssocGrpCPUMinutesLimit/"'
    held = shadow(workspace, "squeue", spent)
    workspace.slurm.run("sbatch", "--exclusive", "-N4", "-o", "/dev/null", "--wrap=sleep 60")
    began = time.monotonic()
    found = complaint(examine(workspace, "--wait", "90s", command=held))
    assert time.monotonic() - began < 60
    assert (found["check"], found["verdict"]) == ("nodes cpu", "wrong")
    assert "the account's budget is too small" in found["evidence"]
    assert workspace.slurm.run("squeue", "-h", "-n", "argosy-doctor-main-cpu").stdout == ""


@pytest.mark.thorough
def test_whoever_waits_for_slurm_is_told_and_it_goes_on(workspace: ClusterWorkspace) -> None:
    workspace.slurm.controller.pause()
    try:
        driver = workspace.start(BIN / "argosy", "doctor", "testbed", "--no-job")
        time.sleep(45)
    finally:
        workspace.slurm.controller.resume()
    output = workspace.end(driver)
    assert driver.returncode == 0, output
    assert re.search(r"Slurm has not answered for \d+ s .*; asking again, for 10m at most", output)

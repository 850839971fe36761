"""Deaths of ranks, agents and jobs: the named culprit, the remains and the next run, with real Horovod."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from agent_job import another_user
from strangers import STRANGERS, beset
from workspace import BIN, Workspace

from argosy.results.tables import fetch, open_tables

# How soon a run ends is measured.
pytestmark = [pytest.mark.quiet, pytest.mark.container]
RUN = "nodes2-ranks1-repeat1"
TARGET = f"results/local/faults/{RUN}/result.json"


@pytest.fixture
def faults(workspace: Workspace, digits: dict[str, Any]) -> Workspace:
    """A short experiment on two nodes."""
    digits["command"] += " --epochs 6 --width 32"
    digits["scale"]["nodes"] = [2]
    digits["timeline"] = True
    workspace.configure({"faults": digits})
    workspace.run_dir("faults", RUN).joinpath("result.json").unlink(missing_ok=True)
    return workspace


def mine(workspace: Workspace) -> list[psutil.Process]:
    """All processes that belong to the workspace's jobs, in containers too."""
    found = []
    for process in psutil.process_iter():
        try:
            words = " ".join(process.cmdline())
            attempt = process.environ().get("ARGOSY_ATTEMPT", "")
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        known = (workspace.run_dir("faults", RUN) / "logs" / attempt).is_dir() and attempt
        if known or str(workspace.path) in words:
            found.append(process)
    return found


def is_python(words: list[str], program: str) -> bool:
    """Return whether python3 runs the program, with whatever options of its own."""
    return words[:1] == ["python3"] and next(
        (word == program for word in words[1:] if not word.startswith("-")), False
    )


def victim(workspace: Workspace, command: str, variable: str, value: str) -> psutil.Process:
    """The first process of the jobs with this command and this variable."""
    found = [
        process
        for process in mine(workspace)
        if is_python(process.cmdline(), command) and process.environ().get(variable) == value
    ]
    return min(found, key=lambda process: process.pid)


def kill_rank(number: str) -> Callable[[Workspace, int], None]:
    return lambda workspace, _: victim(
        workspace, "/workloads/torch/digits.py", "HOROVOD_RANK", number
    ).kill()


def kill_agent(node: str) -> Callable[[Workspace, int], None]:
    return lambda workspace, _: victim(workspace, "/argosy/agent", "ARGOSY_NODE", node).kill()


def interrupt(workspace: Workspace, snakemake: int) -> None:
    os.killpg(snakemake, signal.SIGINT)


@pytest.mark.parametrize(
    ("strike", "who"),
    [
        (kill_rank("1"), r"rank 1 \(node 1, \S+\): killed by signal 9 \(SIGKILL\)"),
        (kill_rank("0"), r"rank 0 \(node 0, \S+\): killed by signal 9 \(SIGKILL\)"),
        (kill_agent("1"), r"node 1( \(\S+\))?: the agent of node 1 was killed"),
        (kill_agent("0"), r"node 0( \(\S+\))?: the agent of node 0 was killed"),
        (interrupt, None),
    ],
    ids=["rank 1", "rank 0", "agent 1", "agent 0", "Ctrl-C"],
)
def test_the_run_ends_as_failed_in_time_and_leaves_nothing(
    faults: Workspace, tmp_path: Path, strike: Callable[[Workspace, int], None], who: str | None
) -> None:
    snakemake = start(faults, tmp_path)
    wait_for_training(faults)
    strike(faults, snakemake.pid)
    struck = time.monotonic()
    output, _ = snakemake.communicate(timeout=60)
    assert time.monotonic() - struck <= 10
    assert snakemake.returncode != 0
    if who:
        assert re.search(who, output), output
    assert not (faults.path / TARGET).exists()
    gone_by = time.monotonic() + 2
    while left := mine(faults):
        assert time.monotonic() < gone_by, left
        time.sleep(0.1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
def test_after_all_that_it_completes_beset_by_strangers_and_its_timeline_is_in_the_report(
    faults: Workspace,
) -> None:
    snakemake = faults.start(BIN / "snakemake")
    with beset(another_user(), *ports_of_agents(faults)) as connections:
        output, _ = snakemake.communicate(timeout=120)
    assert snakemake.returncode == 0, output
    assert connections[0] > STRANGERS
    assert (faults.path / TARGET).exists()
    folder = faults.run_dir("faults", RUN)
    attempt = json.loads((folder / "result.json").read_text())["attempt"]
    file = folder / "records" / attempt / "timeline.json"
    assert file.stat().st_mode & 0o777 == 0o600
    results = faults.path / "results/local"
    with open_tables(results / "tables") as tables:
        (run,) = fetch(tables, "SELECT timeline, unreadable_records FROM runs")
        found = fetch(tables, "SELECT * FROM timeline WHERE operation = 'ALLREDUCE'")
        (steps,) = fetch(tables, "SELECT count(*) AS n FROM steps WHERE rank = 0")
    assert run == {"timeline": True, "unreadable_records": 0}
    activities = {row["activity"]: row for row in found}
    reduced = activities["GLOO_ALLREDUCE"]
    # Each of the eight gradients in each step, and a flag after each epoch but the last.
    assert reduced["events"] == 8 * steps["n"] + 5
    assert activities["NEGOTIATE_ALLREDUCE"]["events"] == reduced["events"]
    assert 0 < reduced["span_s"] <= reduced["seconds"]
    (experiment,) = json.loads((results / "summary.json").read_text())["experiments"]
    (point,) = experiment["timelines"]
    assert {"negotiation", "copies", "operation"} <= set(point["shares"])
    assert all(0 < share["mean"] < 1 for share in point["shares"].values())
    assert "Horovod timelines" in (results / "report.html").read_text()


def start(workspace: Workspace, temporary: Path) -> subprocess.Popen[str]:
    """Run the study with a folder for temporary files that is this test's alone."""
    workspace.environment["TMPDIR"] = str(temporary)
    try:
        return workspace.start(BIN / "snakemake", TARGET, start_new_session=True)
    finally:
        del workspace.environment["TMPDIR"]


def ports_of_agents(workspace: Workspace) -> list[str]:
    """Wait until both agents listen, and return their addresses."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with suppress(psutil.NoSuchProcess):
            agents = [each for each in mine(workspace) if "/argosy/agent" in each.cmdline()]
            found = [each for agent in agents for each in agent.net_connections("tcp")]
            places = {each.laddr for each in found if each.status == psutil.CONN_LISTEN}
            if len(places) == 3:
                return [f"{place.ip}:{place.port}" for place in places]
        time.sleep(0.02)
    raise AssertionError("the agents do not listen")


def wait_for_training(workspace: Workspace) -> None:
    """Until a log that was not there before says that an epoch is over."""
    since, deadline = time.time(), time.monotonic() + 60
    while time.monotonic() < deadline:
        for log in workspace.run_dir("faults", RUN).glob("logs/*/ranks/rank-0.log"):
            text = log.read_text() if log.stat().st_mtime >= since else ""
            if "epoch 1/" in text and "test accuracy" not in text:
                return
        time.sleep(0.02)
    raise AssertionError("the training does not begin")

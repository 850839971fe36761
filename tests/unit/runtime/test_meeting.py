"""Agents that do not find each other at the start."""

import json
import socket
import time
from typing import Any

import pytest
from agent_job import ADDRESS, Job

from argosy.runtime.agent.coordination import meeting
from argosy.runtime.agent.coordination.channel import watch_files
from argosy.runtime.agent.coordination.coordinator import Coordinator
from argosy.runtime.agent.coordination.failure import Failure
from argosy.runtime.agent.coordination.meeting import Roll, Search
from argosy.runtime.agent.settings import Settings, read_settings
from argosy.runtime.agent.transport.messages import Report

SLEEPER = "import time; time.sleep(600)"
REFUSED = ConnectionRefusedError(111, "Connection refused")
SITE = "slurm/kestrel/site.yaml"


def told(job: Job, node: int, **more: str) -> Settings:
    """Return the settings of a node's agent."""
    return read_settings({**job.environment(node), "ARGOSY_SITE_FILE": SITE, **more})


def write_status(job: Job, node: int, host: str, state: str = "running", **more: Any) -> None:
    job.records.mkdir(parents=True, exist_ok=True)
    content = {"schema_version": 2, "node": node, "host": host, "state": state, **more}
    (job.records / f"node-{node}.json").write_text(json.dumps(content))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "REACH_TIME", 0.3)
    monkeypatch.setattr(meeting, "_LATE", 0.4)
    monkeypatch.setattr(meeting, "_LOOK", 0.05)
    monkeypatch.setattr(meeting, "_PATIENCE", 0.1)


def search(
    job: Job, error: BaseException, seconds: float, **more: str
) -> tuple[Failure | None, Any]:
    """Return the failure after attempts with the same error, and the printed lines."""
    said: list[str] = []
    trying = Search(told(job, 1, **more), said.append)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if failure := trying.failed(error):
            return failure, said
        time.sleep(0.01)
    return None, said


@pytest.mark.usefixtures("quick")
def test_a_head_that_has_not_begun_is_waited_for(job: Any) -> None:
    failure, said = search(job(SLEEPER), REFUSED, 1.5)
    assert failure is None
    [line] = said
    assert line.startswith(
        "node 1 waits for the head (node 0, which has not started) at 127.0.0.1:"
    )
    assert line.endswith(" by interface lo: connection refused")


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (REFUSED, "connection refused; check `interface`"),
        (TimeoutError("timed out"), "timed out; `interface`"),
        (OSError(113, "No route to host"), "no route to host; `interface`"),
        (ValueError("the answer is not signed"), "the answer is not signed; check `interface`"),
    ],
)
def test_a_head_that_runs_and_cannot_be_reached(job: Any, error: BaseException, words: str) -> None:
    job = job(SLEEPER)
    write_status(job, 0, "kn0001")
    began = time.monotonic()
    failure, _ = search(job, error, 5, ARGOSY_HEAD_ADDRESS="192.0.2.7", ARGOSY_INTERFACE="ib9")
    assert failure
    assert time.monotonic() - began > 0.3
    where = f"192.0.2.7:{job.port} by interface ib9"
    assert failure.cause.startswith(f"cannot reach the head (node 0, kn0001) at {where}: {words}")
    assert SITE in failure.cause


def test_an_address_that_every_node_has_is_noticed_at_once(
    job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meeting, "_LOOK", 0.05)
    job = job(SLEEPER)
    write_status(job, 0, "another-host")
    failure, _ = search(job, REFUSED, 2)
    assert failure
    assert f"{socket.gethostname()} has that address itself" in failure.cause
    assert SITE in failure.cause


@pytest.mark.usefixtures("quick")
def test_a_pause_of_the_machine_is_nobody_s_fault(
    job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job(SLEEPER)
    write_status(job, 0, socket.gethostname())
    monkeypatch.setattr(meeting, "_LONGEST_STEP", 0.1)
    trying = Search(told(job, 1), lambda line: None)
    time.sleep(0.06)
    assert trying.failed(REFUSED) is None
    time.sleep(0.5)
    assert trying.failed(REFUSED) is None


@pytest.mark.usefixtures("quick")
def test_the_head_notices_who_runs_and_does_not_come(job: Any) -> None:
    job = job(SLEEPER, nodes=3)
    coordinator = Coordinator(3, 300, accept=lambda: None)
    coordinator.beat(Report(0))
    coordinator.beat(Report(1))
    said: list[str] = []
    roll = Roll(told(job, 0), coordinator, said.append)
    roll.start()
    time.sleep(0.3)
    assert coordinator.beat(Report(0)).failure is None
    assert said == ["node 0 waits for the agents of node 2"]
    write_status(job, 2, "kn0003")
    roll.join(5)
    failure = coordinator.beat(Report(0)).failure
    assert failure
    assert failure.node == 2
    assert failure.cause.startswith("its agent runs on kn0003 and has not reached the head at 127.")


def test_a_job_ends_when_another_attempt_has_claimed_its_run(job: Any) -> None:
    job = job(SLEEPER, nodes=1)
    coordinator = Coordinator(1, 300, accept=lambda: None)
    (job.folder / "attempt").write_text("8.0\n")
    watch_files(told(job, 0), coordinator)
    failure = coordinator.beat(Report(0)).failure
    assert str(failure) == "node 0: superseded: the run was started again as 8.0"


def test_all_agents_end_when_a_node_is_known_not_to_start(job: Any) -> None:
    job = job(SLEEPER, nodes=3).start(0, 1)
    job.until_printed("node 1 of 3: agent started")
    said = {"schema_version": 2, "node": 2, "host": "n3", "cause": "it did not start: x", "at": 1.0}
    began = time.monotonic()
    (job.attempt_dir / "not-started.json").write_text(json.dumps(said))
    assert job.wait() == [1, 1]
    assert time.monotonic() - began < 5
    for node in (0, 1):
        failure = {
            "node": 2,
            "rank": None,
            "cause": "it did not start: x",
            "at": 1.0,
            "kind": "other",
        }
        assert job.status(node)["failure"] == failure
    verdict = job.verdict()
    assert verdict.stdout == "argosy: run run failed: node 2: it did not start: x\n"


def test_agents_do_not_wait_for_a_head_that_is_known_not_to_start(job: Any) -> None:
    job = job(SLEEPER).start(1)
    job.until_printed("agent started")
    said = {"schema_version": 2, "node": 0, "host": None, "cause": "it did not start: y", "at": 1.0}
    (job.attempt_dir / "not-started.json").write_text(json.dumps(said))
    assert job.wait() == [1]
    assert job.status(1)["failure"]["cause"] == "it did not start: y"


def test_agents_do_not_wait_for_a_head_that_has_failed(job: Any) -> None:
    """Node 0 cannot listen on its address."""
    job = job(SLEEPER).start(ARGOSY_HEAD_ADDRESS="192.0.2.1")
    assert job.wait() == [1, 1]
    cause = f"cannot listen on 192.0.2.1:{job.port}: Cannot assign requested address"
    assert job.failures() == [cause, cause]


@pytest.mark.slow
def test_the_head_does_not_wait_for_a_node_that_gave_up(job: Any) -> None:
    """Node 1 has another address of the head, and only shares the file system."""
    job = job(SLEEPER).start(0)
    job.until_printed("agent started")
    job.start(1, ARGOSY_HEAD_ADDRESS="127.0.0.2", ARGOSY_START_TIMEOUT="1")
    assert job.wait() == [1, 1]
    [cause] = set(job.failures())
    assert cause.startswith(f"the head (node 0) did not answer for 1 s at 127.0.0.2:{job.port} by")
    assert ADDRESS not in cause

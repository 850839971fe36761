"""A launcher that waits for a lost node is ended soon after the job."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from run_files import run_content

from argosy.runtime import watch_end
from argosy.runtime.contract.attempt import Attempt

VANISHED = {
    "node": 1,
    "rank": None,
    "cause": "its agent vanished (no heartbeat for 5 s)",
    "at": 1.0,
}
FAILED = {**VANISHED, "cause": "killed by signal 9 (SIGKILL)"}
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(flush=True)
time.sleep(60)
"""


class Job:
    """A job of three nodes, all started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records = folder / "records/7.0"
        self.attempt = folder / "attempts/7.0"
        for path in (self.records, self.attempt, folder / "logs/7.0"):
            path.mkdir(parents=True)
        (folder / "run.json").write_text(json.dumps(run_content(nodes=3)))
        for node in range(3):
            self.node(node, "running")

    def node(self, number: int, state: str, failure: Any = None) -> None:
        content = {"schema_version": 2, "state": state, "failure": failure}
        (self.records / f"node-{number}.json").write_text(json.dumps(content))

    def watch(self, launcher: subprocess.Popen[bytes]) -> float:
        """Watch until the launcher has ended; return the seconds."""
        began = time.monotonic()
        watch_end.watch_end(Attempt(str(self.folder), "7.0"), 3, [launcher.pid])
        return time.monotonic() - began


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    for name, seconds in (
        ("INTERVAL", 0.05),
        ("LATE", 0.4),
        ("CLEARING_UP", 1.5),
        ("KILL_TIME", 0.5),
    ):
        monkeypatch.setattr(watch_end, name, seconds)
    words = tmp_path / "words.py"
    words.write_text("NAME = 'X'\nTELLING = ()\ndef misses_node_after():\n    return 0.8\n")
    monkeypatch.setenv("ARGOSY_LOG_WORDS", str(words))
    return Job(tmp_path)


@pytest.fixture
def launcher() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        yield process
        process.kill()


def test_a_launcher_that_ends_with_the_job_is_left_alone(job: Job) -> None:
    with subprocess.Popen(["sleep", "1"]) as process:
        job.node(0, "completed")
        job.node(1, "completed")
        job.node(2, "completed")
        job.watch(process)
    assert process.returncode == 0
    assert not (job.attempt / "lost.json").exists()


@pytest.mark.parametrize("heard_of", [0, 1])
def test_one_that_waits_for_a_node_that_is_gone_is_ended(
    job: Job, launcher: subprocess.Popen[bytes], heard_of: int
) -> None:
    """Any node may be gone, including the first."""
    job.node(heard_of, "failed", FAILED)
    job.node(2, "failed", FAILED)
    assert job.watch(launcher) < 3
    assert launcher.wait() == -signal.SIGKILL
    lost = json.loads((job.attempt / "lost.json").read_text())
    assert lost["nodes"] == [1 - heard_of]


def test_the_scheduler_has_time_to_miss_a_node_that_vanished(
    job: Job, launcher: subprocess.Popen[bytes]
) -> None:
    job.node(0, "failed", VANISHED)
    job.node(2, "failed", VANISHED)
    assert job.watch(launcher) > 0.4 + 0.8


def test_nodes_have_time_to_clear_up(job: Job, launcher: subprocess.Popen[bytes]) -> None:
    for node in range(3):
        job.node(node, "completed")
    assert job.watch(launcher) > 1.5
    assert launcher.wait() == -signal.SIGKILL


def test_a_job_that_runs_is_left_alone(job: Job) -> None:
    with subprocess.Popen(["sleep", "1.5"]) as process:
        job.watch(process)
    assert process.returncode == 0

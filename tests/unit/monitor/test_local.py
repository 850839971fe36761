"""Runs that are processes of this machine."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from live_study import FakeStudy, starts
from study_files import RunFiles, write_json

from argosy.monitor.run_state import RunState, RunView
from argosy.monitor.study import Study

WAITS = "import time; print(flush=True); time.sleep(60)"


@pytest.fixture
def run(fake: FakeStudy) -> RunFiles:
    return fake.plan(nodes=2)


@pytest.fixture
def attempt() -> str:
    return f"local-1-{os.getpid()}.0"


@pytest.fixture
def script(attempt: str) -> Iterator["subprocess.Popen[bytes]"]:
    """What stands for a job's script."""
    environment = {**os.environ, "ARGOSY_ATTEMPT": attempt}
    process = subprocess.Popen(
        [sys.executable, "-c", WAITS], env=environment, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def look(run: RunFiles) -> RunView:
    (view,) = Study(run.path.parents[1]).look(1).views
    return view


def note(run: RunFiles, attempt: str, pid: int, created: float) -> None:
    entry = {
        "scheduler": "local",
        "job_id": attempt.removesuffix(".0"),
        "submitted": time.time() - 10,
        "pid": pid,
        "process_created": created,
    }
    write_json(run.path / "job.json", {"schema_version": 2, "jobs": [entry]})


def test_a_job_runs_as_long_as_its_process(
    run: RunFiles, attempt: str, script: "subprocess.Popen[bytes]"
) -> None:
    note(run, attempt, script.pid, psutil.Process(script.pid).create_time())
    starts(run, attempt, seconds_ago=30)
    view = look(run)
    assert (view.state, view.job) == (RunState.RUNNING, f"pid {script.pid}")
    assert view.nodes == "host0 +1"
    assert view.used_s == pytest.approx(30, abs=2)
    assert view.left_s == pytest.approx(570, abs=2)
    script.kill()
    script.wait()
    assert look(run).state is RunState.GONE


def test_somebody_elses_process_of_the_same_number_is_not_the_job(
    run: RunFiles, script: "subprocess.Popen[bytes]"
) -> None:
    created = psutil.Process(script.pid).create_time()
    note(run, "local-other.0", script.pid, created - 100)
    starts(run, "local-other.0")
    assert look(run).state is RunState.GONE


@pytest.mark.usefixtures("script")
def test_a_script_that_was_started_by_hand_is_seen(run: RunFiles, attempt: str) -> None:
    starts(run, attempt)
    view = look(run)
    assert (view.state, view.job) == (RunState.RUNNING, "by hand")


def test_a_run_that_waits_for_its_turn_is_planned(run: RunFiles) -> None:
    assert look(run).state is RunState.PLANNED


def test_the_site_is_found_through_a_link(run: RunFiles, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(run.path.parents[1])
    (view,) = Study(tmp_path / "link").look(1).views
    assert view.name == "digits/nodes2-ranks1-repeat1"

"""Programs of the host cope with any file that the run's program creates in its folder."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from agent_job import RUNTIME
from run_files import run_content

from argosy.runtime.contract import files

RUN = run_content(spec="s", checkpoints={"warning_s": 1, "requeues": 0})
GOOD = {"schema_version": 2, "state": "completed", "started": 1.0, "ended": 2.0, "host": "n"}


def fifo(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def linked(path: Path) -> None:
    secret = path.parents[3] / "secret"
    secret.write_text(json.dumps({**GOOD, "host": "secret"}))
    path.symlink_to(secret)


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 32)


def deep(path: Path) -> None:
    path.write_text("[" * 500_000)


def long_number(path: Path) -> None:
    path.write_text('{"schema_version": 2, "started": ' + "9" * 900_000 + "}")


def not_a_number(path: Path) -> None:
    path.write_text('{"schema_version": 2, "state": "completed", "started": NaN, "ended": 1e999}')


TRAPS = [fifo, endless, linked, huge, deep, long_number, not_a_number]


def host(run_dir: Path, program: str, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, RUNTIME / program, run_dir, "7.0", *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=20)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    (folder / "logs/7.0").mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(RUN))
    assert host(folder, "claim.py", "s", str(tmp_path)).returncode == 0
    return folder


@pytest.mark.parametrize("trap", TRAPS)
def test_a_status_that_is_a_trap_is_a_lost_node(run_dir: Path, trap: object) -> None:
    trap(run_dir / "records/7.0/node-0.json")  # type: ignore[operator]
    judged = host(run_dir, "verdict.py")
    assert judged.returncode == 1, judged
    assert "was killed or never started" in judged.stdout
    assert not judged.stderr


@pytest.mark.parametrize("trap", TRAPS)
def test_a_checkpoint_that_is_a_trap_is_none(run_dir: Path, trap: object) -> None:
    folder = run_dir / "checkpoints/7.0/step-1"
    folder.mkdir()
    trap(folder / "checkpoint.json")  # type: ignore[operator]
    done = subprocess.run(
        [sys.executable, RUNTIME / "claim.py", run_dir, "7.1", "s", run_dir],
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("trap", [fifo, endless, huge])
def test_a_log_that_is_a_trap_says_nothing(run_dir: Path, trap: object) -> None:
    trap(run_dir / "logs/scheduler-7.log")  # type: ignore[operator]
    trap(run_dir / "logs/7.0/job.log")  # type: ignore[operator]
    assert host(run_dir, "watch_start.py").returncode == 0
    assert host(run_dir, "verdict.py").returncode == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"started": "yesterday", "ended": [1]},
        {"host": {"a": 1}},
        {"failure": "text"},
        {"failure": {"node": "x", "rank": 1e30, "cause": 3, "at": None}},
        {"state": ["completed"]},
    ],
)
def test_values_of_other_types_are_taken_as_missing(run_dir: Path, changes: object) -> None:
    status = {**GOOD, **changes}  # type: ignore[dict-item]
    (run_dir / "records/7.0/node-0.json").write_text(json.dumps(status))
    judged = host(run_dir, "verdict.py")
    assert judged.returncode in (0, 1)
    assert not judged.stderr
    verdict = json.loads((run_dir / "attempts/7.0/verdict.json").read_text())
    assert verdict["seconds"] >= 0


@pytest.mark.parametrize("nodes", [10**9, "2", -1, True, None])
def test_the_number_of_nodes_has_a_bound(run_dir: Path, nodes: object) -> None:
    (run_dir / "run.json").write_text(json.dumps({**RUN, "nodes": nodes}))
    (run_dir / "attempts/7.0/claim.json").unlink(missing_ok=True)
    for program in ("verdict.py", "watch_start.py"):
        assert host(run_dir, program).returncode == 2


def test_control_characters_of_a_cause_do_not_reach_the_terminal(run_dir: Path) -> None:
    failure = {"node": 0, "rank": 0, "cause": "\x1b]0;title\x07 exit", "at": 1.0}
    status = {**GOOD, "state": "failed", "failure": failure}
    (run_dir / "records/7.0/node-0.json").write_text(json.dumps(status))
    assert "\x1b" not in host(run_dir, "verdict.py").stdout


def test_what_is_written_goes_by_no_link(tmp_path: Path) -> None:
    canary, place = tmp_path / "canary", tmp_path / "verdict.json"
    canary.write_text("mine")
    place.symlink_to(canary)
    (tmp_path / f"verdict.json.{os.getpid()}.tmp").symlink_to(canary)
    files.write_json(str(place), {"a": 1})
    assert canary.read_text() == "mine"
    assert json.loads(place.read_text()) == {"a": 1}
    assert not place.is_symlink()
    assert place.stat().st_mode & 0o777 == 0o600

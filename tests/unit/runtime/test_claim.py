"""A run is claimed by one attempt, which resumes from the right checkpoint or from none."""

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import pytest
from run_files import run_content

from argosy.runtime.claim import main, system_offset
from argosy.runtime.contract.attempt import Attempt

SPEC = "0123abcd"


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    plan(tmp_path, command=["python3", "train.py"])
    return tmp_path


def plan(run_dir: Path, **changes: Any) -> None:
    checkpoints = {"warning_s": 60, "requeues": 3}
    run = run_content(**{"spec": SPEC, "checkpoints": checkpoints, **changes})
    (run_dir / "run.json").write_text(json.dumps(run))


def checkpoint(run_dir: Path, attempt: str, step: int, unix: float = 100.0) -> str:
    name = f"{attempt}/step-{step:09d}"
    folder = run_dir / "checkpoints" / name
    folder.mkdir(parents=True)
    content = {
        "schema_version": 2,
        "attempt": attempt,
        "step": step,
        "plan": hashlib.sha256((run_dir / "run.json").read_bytes()).hexdigest(),
        "unix": unix,
    }
    (folder / "checkpoint.json").write_text(json.dumps(content))
    return name


def claim(run_dir: Path, attempt: str, workloads: Path | None = None) -> dict[str, Any]:
    assert main([str(run_dir), attempt, SPEC, str(workloads or run_dir)]) == 0
    found: dict[str, Any] = json.loads((run_dir / "attempts" / attempt / "claim.json").read_text())
    return found


def test_the_run_is_the_last_claimer_s(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert claim(run_dir, "7.0")["continues"] is None
    claim(run_dir, "7.1")
    assert (run_dir / "attempt").read_text() == "7.1\n"
    assert capsys.readouterr().out == ""


def test_what_runs_is_kept_when_something_else_is_planned(run_dir: Path) -> None:
    experiment = {"resources": {"cpus_per_rank": 2}, "environment": {"LR": "0.1"}}
    provenance = {"schema_version": 2, "experiment": experiment, "image": None}
    (run_dir / "provenance.json").write_text(json.dumps(provenance))
    asked = json.loads((run_dir / "run.json").read_text())
    claim(run_dir, "7.0")
    plan(run_dir, command=["python3", "other.py"])
    found = json.loads((run_dir / "attempts/7.0/claim.json").read_text())
    assert (found["run"], found["experiment"]) == (asked, experiment)


def test_what_cannot_be_read_is_left_out(run_dir: Path) -> None:
    (run_dir / "provenance.json").write_text("{")
    found = claim(run_dir, "7.0")
    keys = {"schema_version", "unix", "spec", "continues", "run", "programs"}
    assert found.keys() == {*keys, "log_begin", "utc_offset_s"}


def test_a_name_is_claimed_once(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    claim(run_dir, "7.0")
    assert main([str(run_dir), "7.0", SPEC, str(run_dir)]) == 2
    assert "this attempt has claimed the run before" in capsys.readouterr().err


def test_it_goes_on_from_most_steps_done(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint(run_dir, "7.0", 90, unix=300)
    best = checkpoint(run_dir, "7.1", 120, unix=200)
    checkpoint(run_dir, "7.1", 110, unix=400)
    continues = claim(run_dir, "8.0")["continues"]
    assert (continues["attempt"], continues["step"]) == ("7.1", 120)
    assert capsys.readouterr().out == f"{best}\n"


def test_half_a_checkpoint_is_none(run_dir: Path) -> None:
    folder = run_dir / "checkpoints/7.0"
    (folder / ".new-abc").mkdir(parents=True)
    (folder / "step-000000005").mkdir()
    (folder / "step-000000009").mkdir()
    (folder / "step-000000009/checkpoint.json").write_text('{"schema_version": 2, "st')
    assert claim(run_dir, "8.0")["continues"] is None


def test_what_another_plan_saved_is_left_alone(run_dir: Path) -> None:
    checkpoint(run_dir, "7.0", 90)
    plan(run_dir, command=["python3", "other.py"])
    assert claim(run_dir, "8.0")["continues"] is None


def test_a_run_that_is_measured_again_begins_again(run_dir: Path) -> None:
    checkpoint(run_dir, "7.0", 90, unix=100)
    verdict = {"schema_version": 2, "state": "completed", "ended": 200.0}
    (run_dir / "attempts/7.0").mkdir(parents=True)
    (run_dir / "attempts/7.0/verdict.json").write_text(json.dumps(verdict))
    assert claim(run_dir, "8.0")["continues"] is None
    checkpoint(run_dir, "8.0", 10, unix=300)
    continues = claim(run_dir, "8.1")["continues"]
    assert (continues["attempt"], continues["step"]) == ("8.0", 10)


def test_a_program_that_heeds_no_warnings_begins_again(run_dir: Path) -> None:
    plan(run_dir, checkpoints=None)
    checkpoint(run_dir, "7.0", 90)
    assert claim(run_dir, "8.0")["continues"] is None


def test_a_script_of_an_older_plan_claims_nothing(
    run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    claim(run_dir, "7.0")
    plan(run_dir, spec="of another command")
    assert main([str(run_dir), "8.0", SPEC, str(run_dir)]) == 2
    assert "was replanned after this script was submitted" in capsys.readouterr().err
    assert (run_dir / "attempt").read_text() == "7.0\n"
    assert not (run_dir / "records" / "8.0").exists()


def test_the_program_is_noted_as_it_is_when_the_job_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir, workloads = tmp_path / "run", tmp_path / "workloads"
    run_dir.mkdir()
    workloads.mkdir()
    (workloads / "train.py").write_text("1")
    variables = {"PYTHONPATH": "/workloads", "SEED": "1"}
    plan(run_dir, command=["python3", "/workloads/train.py"], rank_environment=variables)
    digest = f"sha256:{hashlib.sha256(b'1').hexdigest()}"
    assert claim(run_dir, "7.0", workloads)["programs"] == {"/workloads/train.py": digest}
    checkpoint(run_dir, "7.0", 40)
    capsys.readouterr()
    claim(run_dir, "7.1", workloads)
    assert capsys.readouterr().err == ""
    # The attempt resumes after a fix of the program, and reports the change.
    (workloads / "train.py").write_text("2")
    assert claim(run_dir, "7.2", workloads)["continues"]["step"] == 40
    said = "argosy: /workloads/train.py has changed since the checkpoint was saved\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"command": "train.py"}, "command: not a list of strings (it is 'train.py')"),
        ({"command": [1, None]}, "command: not a list of strings (it is [1, None])"),
        ({"rank_environment": []}, "rank_environment: not a map of strings (it is [])"),
        ({"nodes": 1 << 40}, "nodes: not a whole number from 1 to 1,048,576"),
        ({"checkpoints": {}}, "checkpoints: 'warning_s' is missing (it is {})"),
    ],
)
def test_a_garbled_run_is_not_claimed(
    run_dir: Path, change: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plan(run_dir, **change)
    assert main([str(run_dir), "7.0", SPEC, str(run_dir)]) == 2
    assert capsys.readouterr().err.startswith(f"argosy: {run_dir}/run.json: {said}")
    assert not (run_dir / "attempt").exists()


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York", None])
def test_the_node_s_zone_is_noted_whatever_the_user_s_is(
    monkeypatch: pytest.MonkeyPatch, zone: str | None
) -> None:
    monkeypatch.delenv("TZ", raising=False)
    time.tzset()
    node = time.localtime().tm_gmtoff
    if zone:
        monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        own = time.localtime().tm_gmtoff
        assert system_offset() == node
        assert time.localtime().tm_gmtoff == own
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_restart_has_the_nodes_that_are_left(run_dir: Path) -> None:
    plan(run_dir, nodes=4, least_nodes=2, restarts=1)
    assert main([str(run_dir), "7.0-1", SPEC, str(run_dir), "3"]) == 0
    claimed = json.loads((run_dir / "attempts/7.0-1/claim.json").read_text())
    assert claimed["run"]["nodes"] == 3
    assert Attempt(str(run_dir), "7.0-1").run().nodes == 3
    assert Attempt(str(run_dir), "7.0").run().nodes == 4

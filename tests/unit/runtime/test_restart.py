"""Restarts of a run after a failure, and their nodes."""

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_files import run_content

from argosy.run_folder.folder import in_order, is_attempt
from argosy.runtime.contract import layout
from argosy.runtime.verdict import main

KILLED = {
    "node": 1,
    "rank": 1,
    "cause": "killed by signal 9 (SIGKILL)",
    "at": 15.0,
    "kind": "signal",
}
EXIT = {"node": 1, "rank": 1, "cause": "exit code 1", "at": 15.0, "kind": "exit"}


class Run:
    """A run whose batch script runs verdict.py for an attempt."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.monkeypatch = monkeypatch

    def plan(self, **keys: Any) -> "Run":
        run = {
            "run_id": "nodes4-ranks1-repeat1",
            "nodes": 4,
            "independent": True,
            "spec": "s",
            **keys,
        }
        (self.folder / "run.json").write_text(json.dumps(run_content(**run)))
        return self

    def node(self, attempt: str, number: int, state: str, failure: Any = None, **more: Any) -> None:
        status = {"host": f"host{number}", "state": state, "started": 10.0, "ended": 20.0, **more}
        path = self.folder / "records" / attempt / f"node-{number}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"schema_version": 2, **status, "failure": failure}))

    def saved(self, step: int, attempt: str = "7.0") -> "Run":
        path = self.folder / "checkpoints" / attempt / f"step-{step:09d}" / "checkpoint.json"
        path.parent.mkdir(parents=True)
        plan = hashlib.sha256((self.folder / "run.json").read_bytes()).hexdigest()
        path.write_text(
            json.dumps(
                {
                    "schema_version": 2,
                    "attempt": attempt,
                    "step": step,
                    "plan": plan,
                    "unix": time.time(),
                }
            )
        )
        return self

    def fails(
        self, failure: Any = KILLED, lost: tuple[int, ...] = (), **more: Any
    ) -> tuple[int, str]:
        """Return the exit status of a failed attempt, and the line for its script."""
        attempt = more.pop("attempt", "7.0")
        for number in range(4):
            state = "running" if number in lost else "failed"
            self.node(attempt, number, state, None if number in lost else failure, **more)
        self.monkeypatch.setenv("ARGOSY_ATTEMPT", attempt)
        folder = self.folder / "attempts" / attempt
        folder.mkdir(parents=True, exist_ok=True)
        claim = folder / "claim.json"
        if not claim.exists():
            claim.write_text(json.dumps({"schema_version": 2, "spec": "s"}))
        code = main([str(self.folder), attempt])
        restart = folder / "restart"
        return code, restart.read_text() if restart.exists() else ""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(tmp_path, monkeypatch)


@pytest.mark.parametrize("failure", [KILLED, EXIT, {**KILLED, "kind": "lost"}])
def test_a_lost_rank_leaves_all_nodes(run: Run, failure: Any) -> None:
    run.plan(restarts=2).saved(40)
    assert run.fails(failure) == (76, "7.0-1 4 0 1 2 3\n")
    verdict = json.loads((run.folder / "attempts/7.0/verdict.json").read_text())
    assert verdict["restart"] == {"attempt": "7.0-1", "nodes": [0, 1, 2, 3], "step": 40}
    assert main([str(run.folder), "7.0"]) == 1, "asked once more, it is a failed attempt"


def test_lost_nodes_are_left_out_while_enough_are_left(run: Run) -> None:
    vanished = {
        "node": 2,
        "rank": None,
        "cause": "its agent vanished",
        "at": 1.0,
        "kind": "vanished",
    }
    run.plan(restarts=2, least_nodes=2).saved(40)
    assert run.fails(vanished, lost=(2,)) == (76, "7.0-1 3 0 1 3\n")
    assert run.fails(vanished, lost=(0, 2), attempt="8.0") == (76, "8.0-1 3 0 1 3\n")
    assert run.fails(vanished, lost=(2, 3), attempt="6.0") == (76, "6.0-1 2 0 1\n")
    # Their agents were killed, but the launcher noticed: the nodes are alive.
    assert run.fails(vanished, lost=(1, 2, 3), attempt="9.0") == (76, "9.0-1 4 0 1 2 3\n")


def test_too_few_nodes_are_left(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.plan(restarts=2, least_nodes=3).saved(40)
    folder = run.folder / "attempts" / "7.0"
    folder.mkdir(parents=True)
    (folder / "lost.json").write_text(json.dumps({"schema_version": 2, "nodes": [1, 2]}))
    assert run.fails(lost=(1, 2)) == (1, "")
    assert "no restart: 2 of its nodes are left, fewer than 3" in capsys.readouterr().out


def test_a_run_that_needs_all_nodes_tries_all_again(run: Run) -> None:
    run.plan(restarts=2).saved(40)
    assert run.fails(lost=(1,)) == (76, "7.0-1 4 0 1 2 3\n")


def used_up(run: Run) -> tuple[int, str]:
    return run.plan(restarts=1).saved(40).fails(attempt="7.0-1")


def no_checkpoint(run: Run) -> tuple[int, str]:
    return run.plan(restarts=1).fails()


def out_of_memory(run: Run) -> tuple[int, str]:
    return run.plan(restarts=1).saved(40).fails(killed_for_memory=1)


def warned(run: Run) -> tuple[int, str]:
    (run.folder / "attempts/7.0").mkdir(parents=True)
    (run.folder / "attempts/7.0/warning").touch()
    return run.plan(restarts=1).saved(40).fails()


def repeated(run: Run) -> tuple[int, str]:
    assert run.plan(restarts=3).saved(40).fails(EXIT)[0] == 76
    folder = run.folder / "attempts/7.0-1"
    folder.mkdir()
    continues = {"attempt": "7.0", "step": 40}
    (folder / "claim.json").write_text(
        json.dumps({"schema_version": 2, "spec": "s", "continues": continues})
    )
    return run.fails(EXIT, attempt="7.0-1")


@pytest.mark.parametrize(
    ("case", "why"),
    [
        (used_up, "its restarts (1) are used up"),
        (no_checkpoint, "it has saved no checkpoint"),
        (out_of_memory, "memory ran out, and would again"),
        (warned, "the job will end soon"),
        (repeated, "it failed the same way before, from the same checkpoint (step 40)"),
    ],
)
def test_it_does_not_begin_again(
    run: Run,
    case: Callable[[Run], tuple[int, str]],
    why: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert case(run) == (1, "")
    assert f"argosy: no restart: {why}\n" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["other", "hung", None])
def test_what_no_restart_mends_is_not_tried(run: Run, kind: str | None) -> None:
    assert run.plan(restarts=1).saved(40).fails({**KILLED, "kind": kind}) == (1, "")


def test_another_program_than_its_script_starts_nothing(run: Run) -> None:
    run.plan(restarts=1).saved(40)
    run.node("7.0", 1, "failed", KILLED)
    assert main([str(run.folder), "7.0"]) == 1
    assert not (run.folder / "attempts/7.0/restart").exists()


def test_names_of_attempts_are_in_order() -> None:
    names = ["7.0", "7.0-1", "7.0-2", "7.0-10", "7.1", "7.1-1", "8.0"]
    assert all(map(is_attempt, names))
    assert in_order(names[::-1], ["7", "8"]) == names
    assert [layout.next_attempt(name) for name in ("7.0", "7.0-9")] == ["7.0-1", "7.0-10"]
    assert [*map(layout.attempt_before, ("7.1", "7.1-1", "7.1-2"))] == ["", "7.1", "7.1-1"]
    assert {layout.job_of(name) for name in names[:4]} == {"7"}

"""The survey of nodes: with any Python, and between two nodes."""

import ast
import json
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

import argosy
from argosy.probe.looks import read_looks, read_problems
from argosy.runtime import node_look

RUNTIME = Path(argosy.__file__).parent / "runtime"
QUESTIONS = {
    "secret": "0" * 32,
    "nodes": 1,
    "marked": [],
    "suffixes": ["i"],
    "scratch": ["/tmp", "/nowhere"],
    "folders": ["/", "/nowhere"],
    "outside": [["localhost", 1]],
    "paths": {"/tmp": True, "/usr": False, "/proc": True, "/nowhere": False},
    "commands": {"good": ["echo", "hello"], "bad": ["false"], "none": ["/nowhere"]},
}
TOO_NEW = {"dataclasses", "contextvars", "importlib.metadata", "zoneinfo", "__future__"}


@pytest.mark.parametrize(
    "name", ["node_look.py", "started_by_path.py", "contract/files.py", "contract/layout.py"]
)
def test_it_is_for_python_3_6(name: str) -> None:
    tree = ast.parse((RUNTIME / name).read_text(), feature_version=(3, 6))
    imported = {
        name
        for each in ast.walk(tree)
        for name in (
            [one.name for one in each.names]
            if isinstance(each, ast.Import)
            else [each.module or ""]
            if isinstance(each, ast.ImportFrom)
            else []
        )
    }
    assert imported <= {*sys.stdlib_module_names, "started_by_path", "contract.files", "layout"}
    assert not imported & TOO_NEW
    keywords = {each.arg for each in ast.walk(tree) if isinstance(each, ast.keyword)}
    assert not keywords & {"capture_output", "text", "dirs_exist_ok", "missing_ok"}


def look_at(folder: Path, *pythons: str, **questions: str) -> subprocess.CompletedProcess[str]:
    (folder / "questions.json").write_text(json.dumps({**QUESTIONS, **questions}))
    command = [RUNTIME / "node_look.py", folder / "questions.json", folder, "--", *pythons]
    return subprocess.run(
        ["bash", RUNTIME / "look-node.sh", *command],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "ARGOSY_NODE_VARIABLE": "NUMBER", "NUMBER": "0"},
    )


def test_a_node_says_what_it_has(tmp_path: Path) -> None:
    folder = tmp_path / "it's a $(folder)"
    folder.mkdir()
    (tmp_path / "broken").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "broken").chmod(0o755)
    secret = uuid.uuid4().hex
    pythons = ("/nowhere/python", str(tmp_path / "broken"), sys.executable, "python3")
    done = look_at(folder, *pythons, secret=secret)
    assert (done.returncode, done.stderr) == (0, "")
    [found] = read_looks(folder, 1)
    version = ".".join(map(str, sys.version_info[:3]))
    assert found.pythons[0] == f"{sys.executable}={version}"
    assert found.absent == ("/nowhere",)
    assert found.outside["localhost"] != ""
    folders = {each.written: each for each in found.scratch}
    assert folders["/tmp"].writable
    assert folders["/tmp"].size_mib >= folders["/tmp"].free_mib > 0
    assert not folders["/nowhere"].writable
    assert (found.paths["/tmp"], found.paths["/usr"]) == ("", "")
    assert found.paths["/nowhere"] == "is missing"
    assert found.paths["/proc"].startswith("cannot be written to: ")
    assert [found.commands[each].status for each in ("good", "bad", "none")] == [0, 1, -1]
    assert found.commands["good"].said == "hello\n"
    assert "lo" not in {each.name for each in found.interfaces}
    assert not [*Path("/tmp").glob("argosy-look-*")]
    Path("/tmp", f"{node_look.MARK}{secret}-0").unlink()


def test_a_node_without_python_says_so(tmp_path: Path) -> None:
    done = look_at(tmp_path, "/nowhere/python")
    assert done.returncode == 3
    assert "has no Python" in done.stderr
    assert "has no Python" in read_problems(tmp_path, 1)[0]


def test_a_look_that_fails_says_so_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    (tmp_path / "python").write_text(
        '#!/bin/sh\ncase "$*" in *version_info*) echo 3.6.8;; *) exit 9;; esac\n'
    )
    (tmp_path / "python").chmod(0o755)
    assert look_at(tmp_path, str(tmp_path / "python")).returncode == 9
    assert "ended with exit status 9" in read_problems(tmp_path, 1)[0]


def test_a_folder_is_the_one_that_whoever_asks_has(tmp_path: Path) -> None:
    same, other = tmp_path / "same", tmp_path / "other"
    for each in (same, other):
        each.mkdir()
    questions = {"secret": "s" * 32, "marked": [str(same), str(other)]}
    (same / f".argosy-look-{'s' * 32}").write_text("s" * 32)
    assert node_look.seen(str(same), True, questions, 3) == ""
    assert (same / f".argosy-look-{'s' * 32}-3").read_text() == "s" * 32
    node_look.SHOWN_S = 0.3
    assert node_look.seen(str(other), True, questions, 3).startswith(
        "is not the login node's folder"
    )
    # Without access to the internet, there is nothing to compare.
    questions["marked"] = []
    assert node_look.seen(str(other), False, questions, 3) == ""


def test_three_nodes_try_each_other_both_ways(tmp_path: Path) -> None:
    questions = {**QUESTIONS, "nodes": 2, "paths": {}, "commands": {}, "outside": []}
    (tmp_path / "questions.json").write_text(json.dumps(questions))
    running = [
        subprocess.Popen(
            [sys.executable, RUNTIME / "node_look.py", tmp_path / "questions.json", tmp_path],
            env={"PATH": "/usr/bin:/bin", "ARGOSY_NODE": str(number), "ARGOSY_NODES": "3"},
        )
        for number in range(3)
    ]
    assert [each.wait(60) for each in running] == [0, 0, 0]
    looks = read_looks(tmp_path, 4)
    assert [look.number for look in looks] == [0, 1, 2]
    assert {look.nodes for look in looks} == {3}
    for look in looks:
        assert look.meeting.problem == ""
        for found in look.meeting.peers.values():
            assert set(found.values()) <= {""}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"node": 1}', "null"])
def test_what_is_no_look_is_left_out(tmp_path: Path, content: str) -> None:
    (tmp_path / "0.json").write_text(content)
    (tmp_path / "1.json").symlink_to("/etc/passwd")
    assert read_looks(tmp_path, 3) == []

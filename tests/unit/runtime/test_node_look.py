"""The program that looks at nodes: by whatever Python they have, and between two of them."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import argosy
from argosy.probe.looks import read_looks

RUNTIME = Path(argosy.__file__).parent / "runtime"
QUESTIONS = {
    "nodes": 1,
    "secret": "0" * 32,
    "suffixes": ["i"],
    "scratch": ["/tmp", "/nowhere"],
    "folders": ["/", "/nowhere"],
    "outside": [["localhost", 1]],
    "paths": {"/tmp": True, "/usr": False, "/proc": True, "/nowhere": False},
    "commands": {"good": ["echo", "hello"], "bad": ["false"], "none": ["/nowhere"]},
}
TOO_NEW = {"dataclasses", "contextvars", "importlib.metadata", "zoneinfo", "__future__"}


def test_it_is_for_python_3_6() -> None:
    tree = ast.parse((RUNTIME / "node_look.py").read_text(), feature_version=(3, 6))
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
    assert imported <= set(sys.stdlib_module_names)
    assert not imported & TOO_NEW
    keywords = {each.arg for each in ast.walk(tree) if isinstance(each, ast.keyword)}
    assert not keywords & {"capture_output", "text", "dirs_exist_ok", "missing_ok"}


def look_at(folder: Path, *pythons: str) -> subprocess.CompletedProcess[str]:
    (folder / "questions.json").write_text(json.dumps(QUESTIONS))
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
    done = look_at(folder, "/nowhere/python", str(tmp_path / "broken"), sys.executable, "python3")
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
    assert found.paths["/nowhere"] == "is not there"
    assert found.paths["/proc"].startswith("cannot be written to: ")
    assert [found.commands[each].status for each in ("good", "bad", "none")] == [0, 1, -1]
    assert found.commands["good"].said == "hello\n"
    assert found.memory_mib > 100
    assert all(each.address != "127.0.0.1" for each in found.interfaces)
    assert not [*Path("/tmp").glob("argosy-look-*")]


def test_a_node_without_python_says_so(tmp_path: Path) -> None:
    done = look_at(tmp_path, "/nowhere/python")
    assert done.returncode == 3
    assert "has no Python" in done.stderr


@pytest.mark.parametrize("content", ["", "{", "[]", '{"node": 1}', "null"])
def test_what_is_no_look_is_left_out(tmp_path: Path, content: str) -> None:
    (tmp_path / "0.json").write_text(content)
    (tmp_path / "1.json").symlink_to("/etc/passwd")
    assert read_looks(tmp_path, 3) == []

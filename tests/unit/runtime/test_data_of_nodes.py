"""Data on nodes: problems that keep a node from starting, and the record of the first node."""

import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest

import argosy
from argosy.runtime import record_data

PROGRAM = Path(argosy.__file__).parent / "runtime/check-data.sh"


def check(*data: tuple[str, str, Path]) -> subprocess.CompletedProcess[str]:
    variables = {
        "PATH": os.environ["PATH"],
        "ARGOSY_NODE": "3",
        "ARGOSY_SITE_FILE": "slurm/fjord/site.yaml",
        "ARGOSY_DATA_KEY": "experiments.walk.data",
        "ARGOSY_WORKLOADS": "/project",
    }
    arguments = [str(part) for line in data for part in line]
    started = ["bash", "-c", 'printf "started\n%s" "$ARGOSY_DATA"']
    return subprocess.run(
        ["bash", PROGRAM, *arguments, "--", *started], env=variables, capture_output=True, text=True
    )


def test_a_node_names_itself_the_key_the_path_and_the_remedy(tmp_path: Path) -> None:
    folder = tmp_path / "of $(one) 'user'"
    (folder / "sub").mkdir(parents=True)
    (folder / "none").touch()
    (folder / "link").symlink_to("gone")
    os.mkfifo(folder / "fifo")
    good = [("/data/a", "r", folder), ("/data/b", "w", folder / "sub")]
    assert check(*good).stdout == f"started\n/data/a\t{folder}\n/data/b\t{folder}/sub\n"
    wrong = {
        "absent": "is missing",
        "sub": "is empty",
        "none": "is empty",
        "link": "is a link to gone, which is missing",
        "fifo": "is neither a folder nor a file",
    }
    assert "/data/a: a/b is not an absolute path" in check(("/data/a", "r", Path("a/b"))).stderr
    for name, said in wrong.items():
        done = check(*good, ("/data/c", "r", folder / name))
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            f"argosy: node 3 on {os.uname().nodename} did not start: experiments.walk.data./data/c: "
            f"{folder}/{name} {said}; write a path that every node sees, there or in "
            "slurm/fjord/data.yaml\n"
        )


def test_a_large_folder_is_counted_up_to_a_limit_and_a_digest_is_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    for name in ("a/one", "a/b/two", "a/b/three"):
        (tmp_path / name).write_text(name)
    (tmp_path / "a/link").symlink_to("nowhere")
    os.mkfifo(tmp_path / "a/fifo")
    whole = record_data.describe(str(tmp_path / "a"))
    assert (whole["files"], whole["bytes"], whole["is_whole"]) == (4, 21, True)
    assert whole["sha256"] is None
    monkeypatch.setattr(record_data, "MOST_FILES", 2)
    part = record_data.describe(str(tmp_path / "a"))
    assert (part["files"], part["is_whole"]) == (2, False)
    found = record_data.describe(str(tmp_path / "a"), digest=True)
    assert (found["files"], found["is_whole"]) == (4, True)
    lines = "".join(
        f"{hashlib.sha256(f'a/{name}'.encode()).hexdigest()}  {name}\n"
        for name in ("b/three", "b/two", "one")
    )
    assert found["sha256"] == hashlib.sha256(lines.encode()).hexdigest()
    (tmp_path / "a").rename(tmp_path / "moved")
    assert record_data.describe(str(tmp_path / "moved"), digest=True)["sha256"] == found["sha256"]
    (tmp_path / "moved/one").write_text("a/ONE")
    assert record_data.describe(str(tmp_path / "moved"), digest=True)["sha256"] != found["sha256"]


def test_links_that_containers_cannot_follow_are_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "era5"
    (data / "a").mkdir(parents=True)
    (data / "file").write_text("text")
    places = record_data.Places("/data/era5", ["/data/era5", "/lake/kept"])
    links = {"a/in": "../file", "a/folder": "..", "to": "/lake/kept/x", "same": "/data/era5/file"}
    for name, leads in links.items():
        (data / name).symlink_to(leads)
    assert record_data.describe(str(data), places=places)["files"] == 2
    assert capfd.readouterr().err == ""
    (data / "a/out").symlink_to("../../era55")
    (data / "a/far").symlink_to(data / "file")
    assert record_data.describe(str(data), places=places)["files"] == 3
    said = capfd.readouterr().err
    assert said.startswith(f"data: {data}: 2 links lead out of it, such as {data}/a/")
    record_data.describe(str(data))
    assert capfd.readouterr().err == ""


def test_it_is_noted_in_the_attempt(tmp_path: Path) -> None:
    data = {"/data/a": {"path": "$A", "write": False, "digest": True}}
    run = {
        "schema_version": 2,
        "run_id": "nodes1-ranks1-repeat1",
        "experiment": "walk",
        "site": "fjord",
        "nodes": 1,
        "ranks_per_node": 1,
        "repeat": 1,
        "scaling": "strong",
        "image": None,
        "command": ["true"],
        "data": data,
    }
    (tmp_path / "run.json").write_text(json.dumps(run))
    (tmp_path / "attempts/1.0").mkdir(parents=True)
    (tmp_path / "weights").write_text("0.5")
    asked = ["/data/a", "r", f"{tmp_path}/weights", "/data/b", "r", f"{tmp_path}/absent"]
    assert record_data.main([str(tmp_path), "1.0", *asked]) == 0
    found = json.loads((tmp_path / "attempts/1.0/data.json").read_text())["data"]
    assert found.keys() == {"/data/a"}
    assert len(found["/data/a"]["sha256"]) == 64

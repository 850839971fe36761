"""`image: {from: …, python: requirements.txt}`: built without a Containerfile, and anew after a change."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from workspace import Workspace

from argosy_images.store.lockfile import ImageLock

pytestmark = [pytest.mark.thorough, pytest.mark.container]


def make_wheel(folder: Path, version: str) -> None:
    info = f"tiny-{version}.dist-info"
    with zipfile.ZipFile(folder / f"tiny-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny.py", f"RATE = {version}\n")
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tiny\nVersion: {version}\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


def configure(workspace: Workspace, image: dict[str, Any]) -> None:
    experiment = {
        "image": image,
        "command": "python3 -c \"import tiny; print(tiny.RATE, 'img/s')\"",
        "launcher": "plain",
        "throughput": "([0-9.]+) img/s",
        "scale": {"nodes": [1], "repeats": 1},
    }
    workspace.configure({"tiny": experiment})


def test_a_changed_list_builds_and_measures_again(workspace: Workspace, tmp_path: Path) -> None:
    for version in ("1.0", "2.0"):
        make_wheel(tmp_path, version)
    workspace.environment.update(PIP_FIND_LINKS=str(tmp_path), PIP_NO_INDEX="1")
    # The steps that Argosy's own image begins with, so that no base has to be built.
    lines = (workspace.path / "containers/torch-cpu/Containerfile").read_text().split("\n\n")
    (workspace.path / "containers/small").mkdir()
    (workspace.path / "containers/small/Containerfile").write_text("\n\n".join(lines[:3]) + "\n")
    configure(workspace, {"from": "small", "python": "my lists/requirements.txt"})
    wanted = workspace.path / "my lists/requirements.txt"
    wanted.parent.mkdir()
    for version in ("1.0", "2.0"):
        wanted.write_text(f"tiny=={version}\n")
        status, output = workspace.snakemake()
        assert status == 0, output
        run = workspace.run_dir("tiny", "nodes1-ranks1-repeat1")
        told = json.loads((run / "provenance.json").read_text())["image"]
        path = workspace.path / "resources/images" / told["name"] / "image.lock"
        assert told["digest"] == ImageLock.read(path).digest
        assert f"{version} img/s" in "".join(log.read_text() for log in run.rglob("*.log"))
    assert "Nothing to be done" in workspace.snakemake()[1]

    wanted.write_text("tiny==3.0\n")
    status, output = workspace.snakemake()
    assert status != 0 and "Traceback" not in output
    assert "error: image of my lists/requirements.txt upon small: resources/images/small-" in output
    assert "No matching distribution found for tiny==3.0" in output
    wanted.unlink()
    status, output = workspace.snakemake("--dry-run")
    assert status != 0 and "there is no file my lists/requirements.txt" in output

"""`image: {from: …, python: …}`: built without a Containerfile, again when the list changes."""

import json
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from conda_channel import CondaChannel
from workspace import Workspace

from argosy_images.store.lockfile import ImageLock

pytestmark = [pytest.mark.thorough, pytest.mark.container]


def make_wheel(folder: Path, version: str, name: str = "tiny") -> None:
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", f"RATE = {version}\n")
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


def make_small_base(workspace: Workspace) -> None:
    # The steps that Argosy's own image begins with, so that no base has to be built.
    lines = (workspace.path / "containers/torch-cpu/Containerfile").read_text().split("\n\n")
    (workspace.path / "containers/small").mkdir(exist_ok=True)
    (workspace.path / "containers/small/Containerfile").write_text("\n\n".join(lines[:3]) + "\n")


IMPORTS = "python3 -c \"import tiny; print(tiny.RATE, 'img/s')\""


def configure(workspace: Workspace, image: dict[str, Any], command: str = IMPORTS) -> None:
    experiment = {
        "image": image,
        "command": command,
        "launcher": "plain",
        "throughput": "([0-9.]+) img/s",
        "scale": {"nodes": [1], "repeats": 1},
    }
    workspace.configure({"tiny": experiment})


def test_a_changed_list_builds_and_measures_again(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in ("1.0", "2.0"):
        make_wheel(tmp_path, version)
    monkeypatch.setitem(workspace.environment, "PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setitem(workspace.environment, "PIP_NO_INDEX", "1")
    make_small_base(workspace)
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


@pytest.fixture
def channel(tmp_path: Path) -> Iterator[tuple[CondaChannel, str]]:
    made = CondaChannel(tmp_path / "channels/mine")
    serve = partial(SimpleHTTPRequestHandler, directory=str(made.folder.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield made, f"http://127.0.0.1:{server.server_port}/mine"
        server.shutdown()


def test_a_conda_environment_is_built_and_measured_again_when_it_changes(
    workspace: Workspace,
    tmp_path: Path,
    channel: tuple[CondaChannel, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, address = channel
    made.add_python("3.11", "/usr/bin/python3")
    for version in ("1.0", "2.0"):
        made.add("tiny", version, {"site-packages/tiny.py": f"RATE = {version}\n"}, noarch="python")
        made.add("hull", version, {"bin/hull": '#!/bin/sh\nexec "$@"\n'}, ending=".tar.bz2")
    make_wheel(tmp_path, "1.0", "argosy_wheel")
    monkeypatch.setitem(workspace.environment, "PIP_FIND_LINKS", str(tmp_path))
    make_small_base(workspace)
    command = "hull python3 -c \"import tiny, argosy_wheel; print(tiny.RATE, 'img/s')\""
    configure(workspace, {"from": "small", "python": "environment.yml"}, command)

    def ask_for(version: str) -> tuple[int, str]:
        (workspace.path / "environment.yml").write_text(
            f"channels: [{address}, nodefaults]\n"
            f"dependencies: [python=3.11, tiny={version}, hull, pip: [argosy_wheel==1.0]]\n"
        )
        return workspace.snakemake()

    digests = set()
    for version in ("1.0", "2.0"):
        status, output = ask_for(version)
        assert status == 0, output
        run = workspace.run_dir("tiny", "nodes1-ranks1-repeat1")
        told = json.loads((run / "provenance.json").read_text())["image"]
        path = workspace.path / "resources/images" / told["name"] / "image.lock"
        assert told["digest"] == ImageLock.read(path).digest
        assert f"{version} img/s" in "".join(log.read_text() for log in run.rglob("*.log"))
        digests.add(told["digest"])
    assert len(digests) == 2 and "Nothing to be done" in workspace.snakemake()[1]

    status, output = ask_for("3.0")
    assert status != 0 and "Traceback" not in output
    assert "error: image of environment.yml upon small: resources/images/small-" in output
    assert "conda packages cannot be installed: " in output and "for tiny 3.0.*" in output

"""Imported images: from a registry, and from an archive."""

import json
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from registries import push, registry
from workspace import BIN, Workspace

from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store

pytestmark = [pytest.mark.thorough, pytest.mark.container]
RUN = "nodes1-ranks1-repeat1"


@pytest.fixture(scope="module")
def workspace(workspace: Workspace) -> Workspace:
    """A project with an archive of an image that has Python, and no folder of containers/ for it."""
    lines = (workspace.path / "containers/torch-cpu/Containerfile").read_text().split("\n\n")
    folder = workspace.path / "containers/small"
    folder.mkdir()
    # The steps that the project's own image begins with, so nothing has to be built.
    (folder / "Containerfile").write_text("\n\n".join(lines[:2]) + "\n")
    for words in (("build", "small"), ("export", "small", "Small tool.oci.tar")):
        status, output = workspace.run(BIN / "argosy", "image", *words)
        assert status == 0, output
    folder.rename(workspace.path / "not-here")
    (workspace.path / "resources/images/small/image.lock").unlink()
    return workspace


@pytest.fixture(scope="module")
def address(
    workspace: Workspace, project_store: Store, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("registry")
    with tarfile.open(workspace.path / "Small tool.oci.tar") as archive:
        archive.extractall(folder / "layout")
    with registry(project_store, folder / "registry") as found:
        push(project_store, folder / "layout", f"{found}/team/small:1")
        yield found


def configure(workspace: Workspace, image: str) -> None:
    experiment: dict[str, Any] = {
        "image": image,
        "command": "python3 -c \"print('12.5 img/s')\"",
        "launcher": "plain",
        "throughput": "([0-9.]+) img/s",
        "scale": {"nodes": [1], "repeats": 1},
    }
    workspace.configure({"small": experiment})


def measured(workspace: Workspace, image: str) -> tuple[str, ImageLock]:
    """Return snakemake's output, and the lock of the run's image."""
    configure(workspace, image)
    status, output = workspace.snakemake()
    assert status == 0, output
    told = json.loads((workspace.run_dir("small", RUN) / "provenance.json").read_text())["image"]
    lock = ImageLock.read(workspace.path / "resources/images" / told["name"] / "image.lock")
    assert told["digest"] == lock.digest
    return output, lock


def refused(workspace: Workspace, image: str) -> str:
    configure(workspace, image)
    status, output = workspace.snakemake("--dry-run")
    assert status != 0 and "Traceback" not in output
    return output


def test_an_image_of_a_registry_is_taken_and_pinned(workspace: Workspace, address: str) -> None:
    output, lock = measured(workspace, f"docker://{address}/team/small:1")
    assert f"Importing image {lock.name}" in output
    assert lock.name == f"{address.replace(':', '-')}-team-small-1"
    assert lock.base.reference.startswith(f"{address}/team/small:1@sha256:")
    # A locked image is not requested again, so its digest stays.
    output, _ = measured(workspace, f"docker://{address}/team/small:1")
    assert "Nothing to be done" in output


def test_an_archive_is_taken_and_taken_anew_when_it_is_newer(workspace: Workspace) -> None:
    archive = workspace.path / "Small tool.oci.tar"
    output, lock = measured(workspace, archive.name)
    assert (lock.name, lock.base.source) == ("Small-tool.oci", "file")
    assert "Importing image Small-tool.oci" in output
    assert "Nothing to be done" in measured(workspace, archive.name)[0]
    path = workspace.path / "resources/images/Small-tool.oci/image.lock"
    result = workspace.run_dir("small", RUN) / "result.json"
    result_s = result.stat().st_mtime_ns
    os.utime(path, (1, 1))
    output, again = measured(workspace, archive.name)
    assert "Importing image Small-tool.oci" in output
    # It is the same image, so what was measured stays.
    assert (again, result.stat().st_mtime_ns) == (lock, result_s)
    archive.rename(workspace.path / "elsewhere.tar")
    said = refused(workspace, archive.name)
    assert f"{archive.name}: there is no such archive" in said
    assert "write image: Small-tool.oci, which was imported from it" in said
    measured(workspace, "Small-tool.oci")
    assert result.stat().st_mtime_ns == result_s
    path.unlink()
    assert "an image is a folder of containers/, docker://" in refused(workspace, archive.name)


def test_what_cannot_be_meant_is_one_line(workspace: Workspace, tmp_path: Path) -> None:
    assert "config.yaml: image: 'docker://a//b' names no image in a registry" in refused(
        workspace, "docker://a//b"
    )
    (workspace.path / "containers/team-small-1").mkdir()
    said = refused(workspace, "docker://team/small:1")
    assert "would be named team-small-1, and containers/team-small-1 exists already" in said
    assert "argosy image import docker://team/small:1 NAME" in said


def test_the_lock_of_another_image_is_not_taken_for_it(workspace: Workspace, address: str) -> None:
    name = f"{address.replace(':', '-')}-team-small-1"
    folder = workspace.path / "resources/images"
    measured(workspace, f"docker://{address}/team/small:1")
    text = (folder / name / "image.lock").read_text()
    (folder / "team-small-2").mkdir()
    (folder / "team-small-2/image.lock").write_text(text.replace(name, "team-small-2"))
    said = refused(workspace, "docker://team/small:2")
    assert f"resources/images/team-small-2/image.lock: locks {address}/team/small:1@sha256:" in said
    assert "write image: team-small-2 to use it" in said

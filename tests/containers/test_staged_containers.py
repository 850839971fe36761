"""Containers of images that are unpacked on the node, started as by batch scripts."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from image_programs import BASE, built

from argosy_images.archive.packing import pack_image
from argosy_images.staging.folder import NodeFolder
from argosy_images.staging.stage import MEMORY
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]

Runner = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def image(store: Store, tmp_path: Path) -> ImageLock:
    """Return a packed image that no other test uses."""
    folder = tmp_path / "project/containers/image"
    folder.mkdir(parents=True)
    (folder / "file").write_text(str(tmp_path))
    lock = built(store, folder, f"{BASE}\nCOPY file /file\n")
    pack_image(store, lock, print)
    return lock


@pytest.fixture
def start(store: Store, image: ImageLock, tmp_path: Path) -> Runner:
    """Return a function that starts a command in the image as a batch script does."""

    def run(stage: list[str | Path], *command: str) -> "subprocess.Popen[str]":
        program = [sys.executable, "-m", "argosy_images.run", "--digest", image.digest]
        return subprocess.Popen(
            [*program, "--log-dir", tmp_path, *stage, "--", *command],
            env={**os.environ, "ARGOSY_STORE": str(store.path)},
            stdout=subprocess.PIPE,
            text=True,
        )

    return run


def in_node(folder: Path) -> list[str | Path]:
    folder.mkdir(exist_ok=True)
    return ["--stage", "node", "--stage-folder", folder, "--stage-room", "2000"]


def test_on_a_nodes_disk(start: Runner, tmp_path: Path, image: ImageLock) -> None:
    stage = in_node(tmp_path / "node")
    output, _ = start(stage, "sh", "-c", "cat /file; touch /new").communicate()
    assert "argosy: unpacked the image in " in output
    assert str(tmp_path) in output
    assert "Read-only file system" in output
    assert (tmp_path / "node-0.log").read_text() == output
    again = start(stage, "sh", "-c", "exit 7")
    assert again.communicate()[0] == ""
    assert again.returncode == 7
    found = NodeFolder.below(tmp_path / "node").image(image.digest)
    assert not (found.root / "new").exists()


def test_in_memory_and_gone_with_the_container(start: Runner, image: ImageLock) -> None:
    found = NodeFolder.below(MEMORY).image(image.digest)
    runner = start(["--stage", "memory"], "sh", "-c", "cat /file; exit 3")
    assert "argosy: unpacked the image in " in runner.communicate()[0]
    assert runner.returncode == 3
    assert not found.path.exists()
    assert not found.lock.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_in_memory_and_gone_with_a_runner_that_is_ended(
    start: Runner, image: ImageLock, number: signal.Signals
) -> None:
    found = NodeFolder.below(MEMORY).image(image.digest)
    runner = start(["--stage", "memory"], "sh", "-c", "echo began; sleep 60")
    assert runner.stdout
    while "began" not in runner.stdout.readline():
        assert found.is_there or runner.poll() is None
    assert found.is_there
    runner.send_signal(number)
    runner.communicate(timeout=20)
    assert not found.path.exists()


def test_an_image_stays_as_long_as_its_container_even_if_the_runner_is_killed(
    start: Runner, tmp_path: Path, image: ImageLock
) -> None:
    # The container ends shortly after its runner; its files must stay until then.
    stubborn = "trap '' TERM HUP INT; echo began; exec sleep 5"
    runner = start(in_node(tmp_path / "node"), "sh", "-c", stubborn)
    assert runner.stdout
    while "began" not in runner.stdout.readline():
        assert runner.poll() is None
    folder = NodeFolder.below(tmp_path / "node")
    found = folder.image(image.digest)
    assert len(open_by(found.lock)) >= 2, "the runner and what runs the container"
    assert not folder.remove_if_unused(found)
    runner.kill()
    runner.wait()
    while not folder.remove_if_unused(found):
        assert found.is_there
        time.sleep(0.05)
    assert not found.is_there
    assert not open_by(Path(f"{found.lock} (deleted)")), "removed while it was used"


def open_by(path: Path) -> list[str]:
    """Return the processes that have the file open."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if entry.readlink() == path:
                found.append(entry.parts[2])
        except OSError:
            continue
    return found


def test_a_store_behind_a_symbolic_link(store: Store, image: ImageLock, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(store.path)
    command = [sys.executable, "-m", "argosy_images.run", "--digest", image.digest]
    done = subprocess.run(
        [*command, "--log-dir", tmp_path, "--", "cat", "/file"],
        env={**os.environ, "ARGOSY_STORE": str(tmp_path / "link")},
        capture_output=True,
        text=True,
    )
    # The first engine works: no message about another one.
    assert done.stdout == str(tmp_path)

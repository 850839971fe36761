"""With a read-only store, reading commands work and the others fail with one line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from argosy_images.archive.packing import pack_image
from argosy_images.builder.builder import build_image
from argosy_images.store.lockfile import ImageLock
from argosy_images.store.store import Store

pytestmark = pytest.mark.container

READ_ONLY = (
    'mount --bind "$ARGOSY_STORE" "$ARGOSY_STORE" && '
    'mount -o remount,bind,ro "$ARGOSY_STORE" && exec "$@"'
)
CONTAINERFILE = "FROM docker.io/library/debian:bookworm-slim\nRUN echo inside > /made\n"
CANNOT = "but the store is read-only here: run the command on a host that can write to it"


class Project:
    """A project with a built image, whose store is mounted read-only."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.folder = folder
        self.store = store
        self.lock = self.build("image", CONTAINERFILE)
        (folder / "logs").mkdir()

    def build(self, name: str, text: str) -> ImageLock:
        image = self.write(name, text)
        lock = self.folder / "resources" / "images" / name / "image.lock"
        return build_image(self.store, image, lock, self.folder / "build.log")

    def write(self, name: str, text: str) -> Path:
        image = self.folder / "containers" / name
        image.mkdir(parents=True, exist_ok=True)
        (image / "Containerfile").write_text(text)
        return image

    def read_only(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a Python module with the store mounted read-only."""
        done = subprocess.run(
            ["unshare", "-rm", "sh", "-c", READ_ONLY, "sh", sys.executable, "-m", *command],
            cwd=self.folder,
            env={**os.environ, "ARGOSY_STORE": str(self.store.path)},
            capture_output=True,
            text=True,
        )
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        return done

    def argosy(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.read_only("argosy.cli", "image", *arguments)

    def refused(self, *arguments: str) -> str:
        """Return the one-line error of a command."""
        done = self.argosy(*arguments)
        assert done.returncode == 2
        lines = done.stderr.splitlines()
        assert len(lines) == 1, lines
        assert lines[0].startswith(f"error: {self.store.path}: ")
        assert CANNOT in lines[0]
        return lines[0]


@pytest.fixture
def place(tmp_path: Path, store: Store) -> Project:
    (tmp_path / "project").mkdir()
    return Project(tmp_path / "project", store)


def test_jobs_run_on_a_kind_of_node_that_is_not_noted_yet(place: Project) -> None:
    assert not place.store.engines.exists()
    options = ["--digest", place.lock.digest, "--log-dir", place.folder / "logs"]
    done = place.read_only("argosy_images.run", *options, "--", "cat", "/made")
    assert (done.returncode, done.stdout) == (0, "inside\n"), done.stderr
    # An unreadable folder of choices does not stop a job either.
    place.store.engines.mkdir()
    done = place.argosy("engines", "image")
    assert done.returncode == 0
    assert "chosen" in done.stdout
    assert done.stderr.startswith("not saved: ")
    assert not [*place.store.engines.iterdir()]


def test_what_is_finished_can_be_used(place: Project, tmp_path: Path) -> None:
    lock = place.folder / "resources" / "images" / "image" / "image.lock"
    before = lock.read_bytes()
    lock.unlink()
    done = place.argosy("build", "image")
    assert done.returncode == 0, done.stderr
    assert "all 2 steps are cached" in done.stderr
    assert lock.read_bytes() == before
    packed = pack_image(place.store, place.lock, print)
    again = place.argosy("pack", "image")
    assert (again.returncode, str(packed) in again.stderr) == (0, True)
    for command in (["list"], ["why", "image"], ["prune", "--dry-run"]):
        assert place.argosy(*command).returncode == 0, command


def test_what_would_change_it_is_refused_in_one_line(place: Project, tmp_path: Path) -> None:
    place.refused("prune")
    place.refused("pack", "image")
    place.refused("import", str(tmp_path), "other")
    place.write("image", f"{CONTAINERFILE}RUN true\n")
    assert "image image has to be built ('RUN true' is not cached)" in place.refused(
        "build", "image"
    )
    place.write("base", CONTAINERFILE.splitlines()[0])
    assert "image base has to be frozen" in place.refused("build", "base")


def test_a_store_that_belongs_to_others(place: Project) -> None:
    """Missing write permission has the same effect as a read-only mount."""
    image = place.folder / "containers" / "image"
    lock = place.folder / "image.lock"
    folders = [place.store.path, *(place.store.path / name for name in ("locks", "history"))]
    for folder in folders:
        folder.chmod(0o500)
    try:
        assert build_image(place.store, image, lock, place.folder / "build.log") == place.lock
    finally:
        for folder in folders:
            folder.chmod(0o700)

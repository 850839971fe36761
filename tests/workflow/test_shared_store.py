"""Two projects share a store: images of runs are kept, and runs can write to their working directory."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from workspace import BIN, Workspace

from argosy_images.store.store import Store

pytestmark = pytest.mark.container

PROGRAM = """
import os, pathlib, time
pathlib.Path("made/here").mkdir(parents=True)
pathlib.Path("made/here/file").write_text(os.environ["PWD"])
print("ready", os.environ["HOME"], flush=True)
while not os.path.exists("go-on"):
    time.sleep(0.1)
print("rate: 5.0")
"""


def prunes(workspace: Workspace) -> list[str]:
    """Return the line of `argosy image prune --dry-run` about the image."""
    status, output = workspace.run(BIN / "argosy", "image", "prune", "--dry-run")
    assert status == 0, output
    return [line for line in output.splitlines() if "image torch-cpu " in line]


def test_a_running_job_keeps_its_image(
    make_workspace: Callable[[str], Workspace], project_store: Store, tmp_path: Path
) -> None:
    mine, other = make_workspace("mine"), make_workspace("other")
    # As the tests' own, but for the notes of other tests.
    store = tmp_path / "store"
    store.mkdir(mode=0o700)
    for entry in project_store.path.iterdir():
        if entry.name not in ("uses", "projects"):
            (store / entry.name).symlink_to(entry)
    for workspace in (mine, other):
        workspace.environment["ARGOSY_STORE"] = str(store)
    (mine.path / "containers/workloads/write.py").write_text(PROGRAM)
    mine.configure(
        {
            "write": {
                "image": "torch-cpu",
                "launcher": "plain",
                "command": "python3 /workloads/write.py",
                "throughput": "rate: ([0-9.]+)",
                "scale": {"nodes": [1], "repeats": 1},
            }
        }
    )
    driver = mine.start(BIN / "snakemake")
    run_dir = mine.run_dir("write", "nodes1-ranks1-repeat1")
    made = run_dir / "output/made/here/file"
    try:
        deadline = time.monotonic() + 120
        while not made.exists():
            assert driver.poll() is None, driver.communicate()[0]
            assert time.monotonic() < deadline
            time.sleep(0.2)
        # A project that shares the store needs what its image.lock names.
        assert prunes(other) == []
        (mine.path / "resources/images/torch-cpu/image.lock").unlink()
        [kept] = prunes(other)
        assert kept.startswith("keeping image torch-cpu")
        assert f"{run_dir} uses it since" in kept
    finally:
        (run_dir / "output/go-on").touch()
        output = driver.communicate()[0]
    assert driver.returncode == 0, output
    assert made.read_text() == "/job/output"
    [log] = run_dir.glob("logs/*/ranks/rank-0.log")
    assert log.read_text().startswith("ready /tmp")
    assert [line.partition(" torch-cpu")[0] for line in prunes(other)] == ["would remove image"]

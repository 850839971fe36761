"""Other users of the machine cannot see an experiment's variables."""

import hashlib
import os
import shutil
import stat
import threading
from pathlib import Path

import psutil
import pytest
from workspace import BIN, Workspace

pytestmark = pytest.mark.thorough

PROGRAM = Path(__file__).parent / "programs/keeping.py"
SECRET = "value-that-nobody-may-see"
RUN = "nodes1-ranks2-repeat1"


@pytest.mark.parametrize(
    "where",
    [
        {"runtime": "native", "launcher": "plain", "independent": True},
        {"image": "torch-cpu", "launcher": "plain", "independent": True},
        {"image": "torch-cpu", "launcher": "horovod"},
    ],
    ids=["native", "container", "horovod"],
)
def test_a_variable_stands_in_no_arguments_and_in_no_file_that_others_read(
    workspace: Workspace, where: dict[str, str]
) -> None:
    shutil.copy(PROGRAM, workspace.path / "containers/workloads")
    digest = hashlib.sha256(SECRET.encode()).hexdigest()
    workspace.configure(
        {
            "secret": {
                **where,
                "command": f"python3 /workloads/keeping.py {digest}",
                "environment": {"TOKEN": SECRET},
                "scale": {"nodes": [1], "ranks_per_node": 2, "repeats": 1},
                "resources": {"time": "2m", "memory_per_rank": "500M"},
            }
        }
    )
    seen: set[str] = set()
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.02):
            for process in psutil.process_iter(["cmdline"]):
                seen.update(process.info["cmdline"] or [])

    watch = threading.Thread(target=look)
    watch.start()
    try:
        status, output = workspace.run(BIN / "snakemake", "--quiet", "host", "progress")
        assert status == 0, output
    finally:
        ended.set()
        watch.join()
    assert (workspace.run_dir("secret", RUN) / "result.json").is_file()
    assert any(digest in argument for argument in seen)
    assert not [argument for argument in seen if SECRET in argument]
    assert SECRET not in output
    config = workspace.path / "config/config.yaml"
    readable = [
        path
        for folder, _, names in os.walk(workspace.path)
        for path in (Path(folder) / name for name in names)
        if path != config and stat.S_ISREG(path.lstat().st_mode)
        if others_may_read(path, workspace.path) and SECRET.encode() in path.read_bytes()
    ]
    assert readable == []


def others_may_read(path: Path, top: Path) -> bool:
    """Return whether the modes of the file and its folders below `top` let others read it."""
    inside = [*path.parents][: len(path.relative_to(top).parts) - 1]
    return bool(path.stat().st_mode & 0o044) and all(each.stat().st_mode & 0o011 for each in inside)

"""Permissions of results follow ARGOSY_UMASK, whatever the umask."""

import os
import shutil
import subprocess
from pathlib import Path

from workspace import BIN, Workspace

PROGRAM = Path(__file__).parent / "programs/waiting.py"
OPTIONS = "--compute 0.01 --interconnect 0 --network 0 --prepare 0 --fetch 0 --steps 12"
MINE = """import os, runpy
open(os.path.join(os.environ["ARGOSY_RUN_DIR"], "output", "mine"), "w").close()
runpy.run_path(os.path.join(os.path.dirname(__file__), "waiting.py"), run_name="__main__")
"""


def study(workspace: Workspace) -> None:
    shutil.copy(PROGRAM, workspace.path / "containers/workloads")
    (workspace.path / "containers/workloads/mine.py").write_text(MINE)
    workspace.configure(
        {
            "shared": {
                "runtime": "native",
                "launcher": "plain",
                "command": f"python3 /workloads/mine.py {OPTIONS}",
                "scale": {"nodes": [1], "repeats": 1},
                "resources": {"time": "2m"},
            }
        }
    )


def modes(folder: Path) -> dict[str, str]:
    """Return files and folders of results with their permissions, except Snakemake's."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.name != ".snakemake_timestamp":
            found[str(path.relative_to(folder))] = f"{path.stat().st_mode & 0o777:03o}"
    return found


def test_a_group_reads_results_where_asked(workspace: Workspace) -> None:
    study(workspace)
    shutil.rmtree(workspace.path / "results", ignore_errors=True)
    there = Workspace(workspace.path, {**workspace.environment, "ARGOSY_UMASK": "027"})
    process = there.start(BIN / "snakemake", "--quiet", "host", umask=0o077)
    said, _ = process.communicate()
    assert process.returncode == 0, said
    found = modes(workspace.path / "results")
    assert any(name.endswith("rank-0.steps") for name in found)
    assert any(name.endswith("output/mine") for name in found)
    assert any(name.endswith("report.html") for name in found)
    closed = {name: mode for name, mode in found.items() if mode not in ("640", "750")}
    assert closed == {}


def test_without_it_results_are_private(workspace: Workspace) -> None:
    study(workspace)
    shutil.rmtree(workspace.path / "results", ignore_errors=True)
    process = workspace.start(BIN / "snakemake", "--quiet", "host", umask=0o022)
    said, _ = process.communicate()
    assert process.returncode == 0, said
    run = workspace.run_dir("shared", "nodes1-ranks1-repeat1")
    files = {path for path in run.rglob("*") if path.is_file()}
    open_ones = {path for path in files if path.stat().st_mode & 0o077}
    assert {path.name for path in open_ones} <= {".snakemake_timestamp"}


def test_a_value_that_is_none_is_refused(workspace: Workspace) -> None:
    for command in ((BIN / "snakemake", "-n"), (BIN / "argosy", "site", "list")):
        done = subprocess.run(
            command,
            cwd=workspace.path,
            env={**os.environ, "ARGOSY_UMASK": "007"},
            capture_output=True,
            text=True,
        )
        assert done.returncode != 0
        assert "ARGOSY_UMASK=007: others could change your" in done.stdout + done.stderr
        assert "Traceback" not in done.stderr

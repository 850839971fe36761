"""A program in its repository reads and writes relative and fixed paths; the repository stays unchanged."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from workspace import Workspace

pytestmark = pytest.mark.container

PROGRAM = """
import argparse, os, time
from pathlib import Path
import mine.speed
parser = argparse.ArgumentParser()
for name in ("--nodes", "--seed", "--results", "--sites"):
    parser.add_argument(name)
options = parser.parse_args()
print("settings:", open("configs/base.yaml").read().strip(), *vars(options).values(), os.environ["LR"])
print("old:", os.path.exists("checkpoints/old"))
Path("checkpoints/x").write_text("x")
Path(options.results).mkdir(exist_ok=True)
Path(options.results, "y").write_text("y")
Path("log.txt").write_text("new")
time.sleep(0.2)
print("rate:", mine.speed.RATE)
"""


def digest(project: Path) -> str:
    """Digest the repository's files, without what Argosy writes beside them."""
    kept = ("train.py", "mine", "configs", "checkpoints", "containers", "config", "Makefile")
    paths = (path for name in kept for path in [project / name, *(project / name).rglob("*")])
    files = {str(path): path.read_bytes() if path.is_file() else b"" for path in paths}
    return hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()


def test_a_repository_is_read_as_it_lies_and_stays_as_it_is(workspace: Workspace) -> None:
    project = workspace.path
    (project / "containers/workloads").rename(project / "containers/not-workloads")
    for name, text in {
        "train.py": PROGRAM,
        "mine/speed.py": "RATE = 100.0",
        "configs/base.yaml": "base: 1\n",
        "checkpoints/old": "of a run by hand",
    }.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text)
    site = project / "slurm/local/site.yaml"
    site.write_text(site.read_text() + "variables: {batch: 64}\n")
    asked: dict[str, Any] = {
        "image": "torch-cpu",
        "launcher": "plain",
        "independent": True,
        "command": "python3 train.py --nodes {nodes} --seed {repeat} --sites={site.batch} --results "
        "/home/results",
        "environment": {"LR": '{"lr": {ranks}}'},
        "throughput": "rate: ([0-9.]+)",
        "scale": {"nodes": [1, 2], "repeats": 2},
        "resources": {"time": "5m"},
    }
    native = {
        **asked,
        "runtime": "native",
        "command": "python3 train.py --nodes {nodes} --results {output}/results",
        "outputs": ["checkpoints"],
    }
    outputs = ["checkpoints", "/home/results"]
    workspace.configure({"his": {**asked, "outputs": outputs}, "host": native})
    before = digest(project)
    status, output = workspace.snakemake()
    assert status == 0, output
    assert digest(project) == before

    for name, results in (("his", "home/results"), ("host", "results")):
        for nodes in (1, 2):
            folder = workspace.run_dir(name, f"nodes{nodes}-ranks1-repeat2")
            found = {
                str(path.relative_to(folder / "output")): path.is_symlink()
                for path in (folder / "output").rglob("*")
                if not path.is_dir()
            }
            # No links are left in the folder.
            assert found == {"checkpoints/x": False, f"{results}/y": False, "log.txt": False}
            attempt = json.loads((folder / "result.json").read_text())["attempt"]
            said = (folder / f"logs/{attempt}/ranks/rank-0.log").read_text()
            own = (
                f"{nodes} 2 /home/results 64" if name == "his" else f"{nodes} None {folder}/output/"
            )
            assert f"settings: base: 1 {own}" in said
            assert f'{{"lr": {nodes}}}' in said
            assert "old: False" in said

    # All sizes and repeats are of one experiment, though their words differ.
    summary = json.loads((project / "results/local/summary.json").read_text())
    assert summary["problems"] == summary["failures"] == []
    assert {one["experiment"] for one in summary["experiments"]} == {"his", "host"}

    # Files read by a relative path count as inputs.
    status, output = workspace.snakemake()
    assert status == 0 and "Nothing to be done" in output
    (project / "configs/base.yaml").write_text("base: 2\n")
    status, output = workspace.snakemake("--dry-run")
    assert "since /workloads/configs/base.yaml has changed: his/" in output

    # Without `outputs` a folder of the repository is read-only, and the cause says what to do.
    workspace.configure({"his": asked})
    status, output = workspace.snakemake()
    assert status != 0
    assert "name that path in the experiment's outputs" in output
    assert (project / "checkpoints/old").read_text() == "of a run by hand"
    assert [path.name for path in (project / "checkpoints").iterdir()] == ["old"]

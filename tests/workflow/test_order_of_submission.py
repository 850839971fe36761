"""A study's runs start repeat by repeat, in random order within a repeat."""

import json
import shutil
from pathlib import Path

import pytest
from workspace import Workspace

from argosy.study.config import parse_config
from argosy.study.runs import expand, in_blocks

pytestmark = pytest.mark.thorough

PROGRAM = Path(__file__).parent / "programs/waiting.py"
OPTIONS = "--compute 0.001 --interconnect 0 --network 0 --prepare 0 --fetch 0 --steps 12"
NAMES = ("first", "second", "third")


def configure(workspace: Workspace, repeats: int) -> list[Path]:
    """Configure a number of repeats; return the run folders in expected order."""
    program = {
        "runtime": "native",
        "launcher": "plain",
        "command": f"python3 /workloads/waiting.py {OPTIONS}",
        "scale": {"nodes": [1], "repeats": repeats},
        "resources": {"time": "2m"},
    }
    experiments = dict.fromkeys(NAMES, program)
    workspace.configure(experiments)
    ordered = in_blocks(expand(parse_config({"experiments": experiments}, [])))
    return [workspace.run_dir(run.experiment, run.run_id) for run in ordered]


def started(folders: list[Path]) -> list[Path]:
    """Return the folders with results, in order of their start."""
    results = {folder: folder / "result.json" for folder in folders}
    times = {
        folder: json.loads(result.read_text())["started"]
        for folder, result in results.items()
        if result.is_file()
    }
    return sorted(times, key=times.__getitem__)


def test_repeats_start_one_after_the_other_each_in_random_order(workspace: Workspace) -> None:
    shutil.copy(PROGRAM, workspace.path / "containers/workloads")
    asked = configure(workspace, repeats=2)
    # One at a time Snakemake chooses, all at once Argosy's executor.
    status, output = workspace.snakemake("--jobs", "1", "--quiet", "host")
    assert status == 0 and started(asked) == asked, output
    measured = {folder: (folder / "provenance.json").stat().st_mtime_ns for folder in asked}
    more = configure(workspace, repeats=4)
    assert more[:6] == asked
    status, output = workspace.snakemake("--quiet", "host")
    assert status == 0 and started(more) == more, output
    assert {folder: (folder / "provenance.json").stat().st_mtime_ns for folder in asked} == measured
    # Each order of a block is as good as any other.
    assert len({tuple(folder.parent.name for folder in more[at : at + 3]) for at in (0, 3, 6)}) > 1

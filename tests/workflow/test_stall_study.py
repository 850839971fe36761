"""A stall study from configuration to report."""

import json
import shutil
from pathlib import Path

import pytest
from workspace import BIN, Workspace

# What is known is known to hundredths of a step: other tests beside it would be measured, too.
pytestmark = [pytest.mark.thorough, pytest.mark.alone]

PROGRAM = Path(__file__).parent / "programs/waiting.py"
WAITS_S = {
    "compute": 0.040,
    "interconnect": 0.010,
    "network": 0.020,
    "prepare": 0.010,
    "fetch": 0.020,
}
SHARES = {"compute": 0.4, "interconnect": 0.1, "network": 0.2, "preparation": 0.1, "fetch": 0.2}


def test_known_waits_come_back(workspace: Workspace) -> None:
    shutil.copy(PROGRAM, workspace.path / "containers/workloads")
    options = " ".join(f"--{part} {seconds}" for part, seconds in WAITS_S.items())
    workspace.configure(
        {
            "waiting": {
                "runtime": "native",
                "launcher": "plain",
                "independent": True,
                "command": f"python3 /workloads/waiting.py {options}",
                "scale": {"kind": "weak", "nodes": [2], "ranks_per_node": 2, "repeats": 1},
                "resources": {"time": "2m"},
            }
        },
        studies={"stalls": {"waiting": {"synthetic": "--synthetic", "warm": "--warm"}}},
    )
    status, output = workspace.run(BIN / "snakemake", "--quiet", "host", "progress", "reason")
    assert status == 0, output
    summary = json.loads((workspace.path / "results/local/summary.json").read_text())
    found = {one["experiment"]: one for one in summary["experiments"]}
    assert set(found) == {
        "waiting",
        "waiting-alone",
        "waiting-synthetic",
        "waiting-warm",
    }
    (point,) = found["waiting"]["stalls"]
    assert (point["nodes"], point["ranks_per_node"], point["refused"]) == (2, 2, None)
    means = {name: share["mean"] for name, share in point["shares"].items()}
    # A sleep ends late where four ranks share the cores.
    assert means == pytest.approx(SHARES, abs=0.04)
    # Nothing is measured again.
    status, output = workspace.run(BIN / "snakemake", "--dry-run")
    assert status == 0 and "Nothing to be done" in output, output

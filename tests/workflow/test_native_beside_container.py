"""The same experiment with and without a container: two sets of runs, and the container's cost."""

import json
from typing import Any

import pytest
from workspace import Workspace

pytestmark = pytest.mark.container

PROGRAM = """
import argparse, os, platform, time
from importlib.metadata import version
import argosy_steps, numpy
parser = argparse.ArgumentParser()
parser.add_argument("--settings")
parser.add_argument("--output")
options = parser.parse_args()
print("settings:", open(options.settings).read().strip())
print("libc:", platform.libc_ver()[1], "torch:", version("torch"), "seen:", os.path.exists("/workloads"))
with open(options.output + "/said", "a") as file:
    file.write(os.environ["DATA"])
assert argosy_steps.Recorder().records
began = time.monotonic()
time.sleep(0.2)
print("rate: %.3f" % (1 / (time.monotonic() - began)))
"""


def test_both_are_measured_and_held_against_each_other(workspace: Workspace) -> None:
    programs = workspace.path / "containers/workloads"
    (programs / "program.py").write_text(PROGRAM)
    (programs / "settings.txt").write_text("the same\n")
    experiment: dict[str, Any] = {
        "image": "torch-cpu",
        "runtime": ["container", "native"],
        "launcher": "plain",
        "command": "python3 /workloads/program.py --settings=/workloads/settings.txt --output /job/output",
        # By a line: of steps on a busy machine it may be said that they never became steady.
        "throughput": "rate: ([0-9.]+)",
        "environment": {"DATA": "/job/output:/workloads/{x}:/workloads-of-another:/data/job"},
        "scale": {"nodes": [1], "repeats": 2},
        "resources": {"time": "5m"},
    }
    workspace.configure({"digits": experiment})
    status, output = workspace.snakemake()
    assert status == 0, output

    said = {}
    for name in ("digits", "digits-native"):
        folder = workspace.run_dir(name, "nodes1-ranks1-repeat1")
        attempt = json.loads((folder / "result.json").read_text())["attempt"]
        lines = (folder / f"logs/{attempt}/ranks/rank-0.log").read_text().splitlines()
        said[name] = dict(line.split(": ", 1) for line in lines)
        data = (folder / "output/said").read_text()
        assert data.endswith(":/workloads-of-another:/data/job")
        assert ("/job/output:/workloads/{x}:" in data) == (name == "digits")
        assert (f"{folder}/output:{programs}/{{x}}:" in data) == (name == "digits-native")
    assert said["digits"]["settings"] == said["digits-native"]["settings"] == "the same"
    inside, outside = (each["libc"].split() for each in said.values())
    # C library and packages are the image's in both.
    assert inside[:3] == outside[:3]
    assert (inside[-1], outside[-1]) == ("True", "False")

    summary = json.loads((workspace.path / "results/local/summary.json").read_text())
    assert summary["problems"] == summary["failures"] == []
    costs = {one["experiment"]: one["container_costs"] for one in summary["experiments"]}
    assert costs["digits-native"] == []
    [cost] = costs["digits"]
    assert cost["native"] == "digits-native"
    assert abs(cost["cost"]["mean"]) < 1
    assert "the container costs" in (workspace.path / "results/local/report.html").read_text()

    # Nothing is measured again.
    status, output = workspace.snakemake()
    assert status == 0
    assert "Nothing to be done" in output

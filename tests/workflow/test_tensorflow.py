"""The demo with TensorFlow: image, self-test, two ranks with equal weights."""

import json

import pytest
from step_files import all_steps
from workspace import Workspace

pytestmark = [pytest.mark.thorough, pytest.mark.container]
RUN = "nodes2-ranks1-repeat1"


def test_tensorflow_learns_and_all_ranks_end_with_the_same_weights(workspace: Workspace) -> None:
    experiment = {
        "image": "tensorflow-cpu",
        "command": "python3 /workloads/tensorflow/digits.py",
        "scale": {"nodes": [2], "repeats": 1},
        "resources": {"time": "10m"},
    }
    workspace.configure({"digits": experiment})
    status, output = workspace.snakemake()
    assert status == 0, output

    folder = workspace.run_dir("digits", RUN)
    attempt = json.loads((folder / "result.json").read_text())["attempt"]
    found = [
        json.loads(line)
        for path in (folder / "records" / attempt).glob("rank-*.jsonl")
        for line in path.read_text().splitlines()
    ]
    metrics = [(each["name"], each["value"]) for each in found if each["kind"] == "metric"]
    by_name = {name: [value for other, value in metrics if other == name] for name, _ in metrics}
    assert by_name["weights_identical"] == [True, True]
    assert len(set(by_name["weights_sha256"])) == 1
    assert min(by_name["test_accuracy"]) >= 0.96
    files = (folder / "records" / attempt).glob("rank-*.steps")
    steps = [step for path in files for step in all_steps(path)]
    assert {step.samples for step in steps} == {32}
    assert all(step.phases["communication"] > 0 for step in steps)

"""Two nodes train where user namespaces are forbidden: agents and ranks run by proot."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from no_namespaces import forbidding
from workspace import BIN, Workspace

from argosy_images import tools
from argosy_images.store.store import Store

pytestmark = pytest.mark.container
RUN = "nodes2-ranks1-repeat1"


def test_ranks_meet_and_train_by_proot(
    workspace: Workspace, digits: dict[str, Any], project_store: Store
) -> None:
    tools.Tools(project_store).fetch_proot(print)
    digits["command"] += " --epochs 2 --warm-up-epochs 1"
    digits["scale"] = {"nodes": [2], "repeats": 1}
    workspace.configure({"digits": digits})
    status, output = workspace.run(*forbidding(BIN / "snakemake"))
    assert status == 0, output

    folder = workspace.run_dir("digits", RUN)
    result = json.loads((folder / "result.json").read_text())
    assert result["state"] == "completed"
    records = folder / "records" / result["attempt"]
    metrics = [
        (each["name"], each["value"])
        for path in records.glob("rank-*.jsonl")
        for each in map(json.loads, path.read_text().splitlines())
        if each["kind"] == "metric"
    ]
    assert [value for name, value in metrics if name == "weights_identical"] == [True, True]
    page = (workspace.path / "results/local/report.html").read_text()
    assert "<td>proot</td>" in page
    logs = "".join(path.read_text() for path in folder.glob("logs/*/node-*.log"))
    assert logs.count("argosy: proot does not isolate: ") == 2
    # Files of the run are the user's, and what the ranks could not write to is as it was.
    assert {path.stat().st_uid for path in folder.rglob("*")} == {os.getuid()}


@pytest.mark.thorough
def test_each_node_takes_what_works_there_whatever_the_login_node_has(
    workspace: Workspace, project_store: Store
) -> None:
    tools.Tools(project_store).fetch_proot(print)
    experiment = {
        "image": "torch-cpu",
        "command": "python3 -c \"print('7 img/s')\"",
        "launcher": "plain",
        "throughput": "([0-9.]+) img/s",
        "scale": {"nodes": [1], "repeats": 1},
    }
    workspace.configure({"either": experiment})
    folder = workspace.run_dir("either", "nodes1-ranks1-repeat1")
    script = ["bash", folder / "job.sbatch"]
    for login_has, node_has in ((True, False), (False, True)):
        shutil.rmtree(folder, ignore_errors=True)
        status, output = workspace.run(*where(login_has, BIN / "snakemake"))
        assert status == 0, output
        before = set(folder.glob("logs/*"))
        status, output = workspace.run(*where(node_has, *script))
        assert status == 0, output
        (logs,) = set(folder.glob("logs/*")) - before
        said = (logs / "node-0.log").read_text()
        assert ("argosy: proot does not isolate: " in said) != node_has, said


def where(namespaces: bool, *command: str | Path) -> list[str | Path]:
    """Return a command on a host with or without user namespaces."""
    return [*command] if namespaces else forbidding(*command)

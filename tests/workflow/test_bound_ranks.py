"""Bound ranks have their own cores, with every way to start a rank."""

import json
from pathlib import Path
from typing import Any

import pytest
from no_namespaces import forbidding
from workspace import BIN, Workspace

from argosy_images import tools
from argosy_images.store.store import Store

pytestmark = pytest.mark.container

PROGRAM = """
import os
cpus = [line.split()[1] for line in open("/proc/self/status") if line.startswith("Cpus_allowed_list")]
assert len(os.sched_getaffinity(0)) == int(os.environ["OMP_NUM_THREADS"]), cpus
print("on", *cpus, flush=True)
print("7 img/s", flush=True)
"""


def cpus_seen(folder: Path) -> list[str]:
    """Return the CPUs seen by each rank, which match its node's record."""
    attempt = json.loads((folder / "result.json").read_text())["attempt"]
    seen = []
    for path in sorted((folder / "records" / attempt).glob("node-*.json")):
        for rank in json.loads(path.read_text())["ranks"]:
            log = folder / f"logs/{attempt}/ranks/rank-{rank['rank']}.log"
            assert f"on {rank['cpus']}" in log.read_text()
            seen.append(rank["cpus"])
    return seen


def test_in_containers_and_without(workspace: Workspace, project_store: Store) -> None:
    tools.Tools(project_store).fetch_proot(print)
    (workspace.path / "containers/workloads/where.py").write_text(PROGRAM)
    experiment: dict[str, Any] = {
        "image": "torch-cpu",
        "runtime": ["container", "native"],
        "launcher": "plain",
        "independent": True,
        "command": "python3 /workloads/where.py",
        "throughput": "([0-9.]+) img/s",
        "scale": {"nodes": [2], "repeats": 1},
        "resources": {"bind": "core"},
    }
    without_namespaces = {**experiment, "runtime": "container"}
    workspace.configure({"where": experiment})
    status, output = workspace.snakemake()
    assert status == 0, output
    workspace.configure({"proot": without_namespaces})
    status, output = workspace.run(*forbidding(BIN / "snakemake"))
    assert status == 0, output
    run = "nodes2-ranks1-repeat1"
    for name in ("where", "where-native", "proot"):
        assert len({*cpus_seen(workspace.run_dir(name, run))}) == 2
    assert "bind      core" in workspace.run(BIN / "argosy", "why", f"proot/{run}")[1]
    page = (workspace.path / "results/local/report.html").read_text()
    assert "ranks bound to cores" in page and "<td>proot</td>" in page

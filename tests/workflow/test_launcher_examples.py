"""The programs of config/launchers.yaml on two nodes: all of them meet, and learn the same.

A program that never uses its cluster is no measurement.
"""

import json
import os
from pathlib import Path

import psutil
import pytest
import yaml
from workspace import Workspace

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.container,
    pytest.mark.slow,
    pytest.mark.timeout(1500),
]
RUN = "nodes2-ranks1-repeat1"


def test_a_program_of_each_launcher_runs_on_two_nodes(workspace: Workspace) -> None:
    content = yaml.safe_load((workspace.path / "config/launchers.yaml").read_text())
    experiments = content["experiments"]
    for experiment in experiments.values():
        experiment["scale"] = {"nodes": [2], "repeats": 1}
    # It never calls ray.init().
    alone = {"command": ["python3", "-c", "import time; time.sleep(2); print('5 samples/s')"]}
    experiments["ray-alone"] = {**experiments["ray"], **alone}
    workspace.configure(experiments)
    before = left_behind()
    status, output = workspace.snakemake()
    assert status == 0, output
    assert "its program and the commands beside it never met: they are 2 groups" in output
    summary = json.loads((workspace.path / "results/local/summary.json").read_text())
    found = {one["experiment"]: one for one in summary["experiments"]}
    assert found.keys() == experiments.keys()
    for name, one in found.items():
        [point] = one["points"]
        assert point["nodes"] == 2
        if name == "ray-alone":
            assert point["throughput_samples_per_s"] is None
            continue
        result = json.loads((workspace.run_dir(name, RUN) / "result.json").read_text())
        # `flwr run` connects so briefly that a busy machine may not see it; then nothing is claimed.
        assert result.get("groups") in ((1, None) if name == "flower" else (1,)), (name, result)
        assert point["throughput_samples_per_s"]["mean"] > 0, name
        [log] = workspace.run_dir(name, RUN).glob("logs/*/ranks/rank-0.log")
        counted = "nodes" if name in ("ray", "flower") else "ranks"
        assert f"{counted}: 2\n" in log.read_text()
    assert left_behind() <= before


def left_behind() -> set[str]:
    """Return names of temporary files, and of processes that programs start beside themselves."""
    started = ("raylet", "gcs_server", "flower-supernode", "flower-superlink", "flower-superexec")
    return {
        *(str(path) for path in Path("/dev/shm").iterdir() if path.stat().st_uid == os.getuid()),
        *(str(path) for path in Path("/tmp").glob("ray*")),
        *(
            " ".join(each.cmdline()[:3])
            for each in psutil.process_iter()
            if any(name in each.name() for name in started)
        ),
    }

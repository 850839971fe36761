"""The main job on a real cluster: real udocker, real Horovod between nodes, and by hand as well."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster import Cluster
from cluster_workspace import ClusterWorkspace
from workspace import BIN, Workspace

from argosy.report.runs.scaling import are_blocks
from argosy.schedulers.slurm.scheduler import PARALLEL_SUBMISSIONS
from argosy.study.config import parse_config
from argosy.study.runs import expand, in_blocks
from argosy_images.store.store import Store

pytestmark = [pytest.mark.slurm, pytest.mark.container, pytest.mark.timeout(1500)]
DIGITS = {
    "image": "torch-cpu",
    # Fewer than the demo: what is compared is there after six.
    "command": "python3 /workloads/torch/digits.py --epochs 6",
    "scale": {"nodes": [1, 2, 4], "repeats": 1},
    "resources": {"time": "10m"},
}
RUNS = [f"nodes{nodes}-ranks1-repeat1" for nodes in (1, 2, 4)]


@pytest.fixture(scope="module")
def study(
    cluster: Cluster,
    project: Path,
    project_store: Store,
    torch_digest: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> ClusterWorkspace:
    """The digits study, run to its end."""
    path = tmp_path_factory.mktemp("study") / "a project; with $(odd) 'name'"
    done = ClusterWorkspace.copy(project, path, project_store.path, site="testbed", cluster=cluster)
    done.configure({"digits": DIGITS})
    status, output = done.run(BIN / "snakemake", "--profile", "slurm/testbed")
    assert status == 0, output
    return done


def metrics(run_dir: Path) -> dict[str, list[Any]]:
    """All values of each metric that a completed run recorded."""
    attempt = json.loads((run_dir / "result.json").read_text())["attempt"]
    found: dict[str, list[Any]] = {}
    for path in sorted((run_dir / "records" / attempt).glob("rank-*.jsonl")):
        for line in map(json.loads, path.read_text().splitlines()):
            if line["kind"] == "metric":
                found.setdefault(line["name"], []).append(line["value"])
    return found


def test_every_run_completes_with_the_same_weights_on_all_ranks(study: ClusterWorkspace) -> None:
    for run_id in RUNS:
        nodes = int(re.findall(r"\d+", run_id)[0])
        result = study.result(run_id, "digits")
        assert result["state"] == "completed"
        assert len(set(result["hosts"])) == nodes
        found = metrics(study.run_dir("digits", run_id))
        assert found["weights_identical"] == [True] * nodes
        assert len(set(found["weights_sha256"])) == 1
        assert len(study.jobs(run_id, "digits")) == 1


def test_slurm_is_given_one_repeat_after_the_other(workspace: ClusterWorkspace) -> None:
    workspace.count([1, 2, 4], repeats=2, steps=2)
    output = workspace.end(driver := workspace.drive())
    assert driver.returncode == 0, output
    asked = yaml.safe_load((workspace.path / "config/config.yaml").read_text())
    ordered = [run.run_id for run in in_blocks(expand(parse_config(asked, [])))]
    submitted = {run_id: workspace.jobs(run_id)[0]["submitted"] for run_id in ordered}
    starts = {
        repeat: [submitted[run_id] for run_id in ordered if run_id.endswith(f"repeat{repeat}")]
        for repeat in (1, 2)
    }
    assert are_blocks(starts)
    # Several are submitted at a time.
    for place, run_id in enumerate(sorted(ordered, key=submitted.__getitem__)):
        assert abs(ordered.index(run_id) - place) < PARALLEL_SUBMISSIONS


def test_accuracy_and_report_are_those_of_this_machine(
    study: ClusterWorkspace, project: Path, project_store: Store, tmp_path: Path
) -> None:
    local = Workspace.copy(project, tmp_path / "local", project_store.path)
    local.configure({"digits": {**DIGITS, "scale": {"nodes": [2], "repeats": 1}}})
    status, output = local.run(BIN / "snakemake")
    assert status == 0, output
    here, there = (metrics(one.run_dir("digits", RUNS[1])) for one in (local, study))
    assert there["test_accuracy"] == pytest.approx(here["test_accuracy"], abs=0.01)
    reports = [
        json.loads((folder / "summary.json").read_text())
        for folder in (local.path / "results/local", study.path / "results/testbed")
    ]
    assert set(reports[0]) == set(reports[1])
    sizes = [
        [
            (point["nodes"], point["ranks"])
            for each in one["experiments"]
            for point in each["points"]
        ]
        for one in reports
    ]
    assert sizes == [[(2, 2)], [(1, 1), (2, 2), (4, 4)]]
    assert reports[1]["failures"] == []


def test_again_nothing_runs(study: ClusterWorkspace) -> None:
    status, output = study.run(BIN / "snakemake", "--profile", "slurm/testbed")
    assert status == 0
    assert "Nothing to be done" in output


def test_a_changed_site_file_plans_anew_and_measures_nothing_again(study: ClusterWorkspace) -> None:
    path = study.path / "slurm/testbed/site.yaml"
    path.write_text(path.read_text() + "\n# A comment.\n")
    status, output = study.run(BIN / "snakemake", "--profile", "slurm/testbed")
    assert status == 0
    assert "Running digits" not in output
    assert all(len(study.jobs(run, "digits")) == 1 for run in RUNS)


def test_by_hand_the_script_leaves_the_same_files(study: ClusterWorkspace) -> None:
    run_dir = study.run_dir("digits", "nodes2-ranks1-repeat1")
    first = study.result(run_dir.name, "digits")
    before = files_of(run_dir, first["attempt"])
    (run_dir / "result.json").unlink()
    job_id = study.slurm.run("sbatch", "--parsable", run_dir / "job.sbatch", cwd="/").stdout.strip()
    study.wait_for((run_dir / "result.json").exists, "the job by hand completes", 120)
    time.sleep(1)
    second = study.result(run_dir.name, "digits")
    assert second["attempt"] == f"{job_id}.0"
    assert files_of(run_dir, second["attempt"]) == before
    assert metrics(run_dir)["weights_identical"] == [True, True]
    status, output = study.run(BIN / "snakemake", "--profile", "slurm/testbed")
    assert status == 0
    assert "Running digits" not in output


def files_of(run_dir: Path, attempt: str) -> set[str]:
    """The files of a run, without those of other attempts."""
    job_id = attempt.rpartition(".")[0]
    names = {str(path.relative_to(run_dir)) for path in run_dir.rglob("*") if path.is_file()}
    mine = {name for name in names if not re.search(r"\d{5,}", name) or job_id in name}
    return {name.replace(attempt, "J.0").replace(job_id, "J") for name in mine}

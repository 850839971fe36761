"""A study moves to an offline machine, with only a bundle and the documentation."""

import json
import os
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from no_network import without_network
from workspace import BIN, Workspace

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.container,
    pytest.mark.slow,
    pytest.mark.timeout(1500),
]
ARGOSY = ".venv/bin/argosy"
# The image and the program are small, since both machines run, pack and unpack them.
IMAGE = """FROM docker.io/library/debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends python3 && rm -rf /var/lib/apt/lists/*
"""
PROGRAM = Path(__file__).parent / "programs/scored.py"


@pytest.fixture(scope="module")
def bundle(make_workspace: Callable[[str], Workspace]) -> Path:
    """The bundle of a measured study, with packages and tools for another machine."""
    workspace = make_workspace("bundled study")
    (workspace.path / "containers/small").mkdir()
    (workspace.path / "containers/small/Containerfile").write_text(IMAGE)
    shutil.copy(PROGRAM, workspace.path / "containers/workloads")
    scored: dict[str, Any] = {
        "image": "small",
        "launcher": "plain",
        "independent": True,
        "command": f"python3 /workloads/{PROGRAM.name}",
        "scale": {"nodes": [1, 2], "repeats": 1},
        "resources": {"time": "10m"},
    }
    workspace.configure({"scored": scored})
    status, output = workspace.snakemake("--quiet", "host")
    assert status == 0, output
    status, output = workspace.run(BIN / "argosy", "bundle", "--environment", "../study.zip")
    assert status == 0, output
    return workspace.path.parent / "study.zip"


def run_without_network(folder: Path, *command: str) -> str:
    """Return the output of a command on the other machine, with its own store."""
    environment = {name: text for name, text in os.environ.items() if name != "ARGOSY_STORE"}
    done = subprocess.run(
        without_network(*command),
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def commands_of(page: Path, title: str) -> list[str]:
    """Return the lines of the first example in a page's section, without comments."""
    section = page.read_text().partition(f"\n## {title}\n")[2]
    example = section.partition("```sh\n")[2].partition("```")[0]
    return [line.partition("  #")[0].strip() for line in example.splitlines()]


def test_the_page_has_all_that_the_other_machine_needs(
    project: Path, bundle: Path, tmp_path: Path
) -> None:
    unbundle, *later = commands_of(project / "docs/carrying.md", "At the other machine")
    assert unbundle.startswith(".venv/bin/argosy unbundle study.zip study")
    (tmp_path / ".venv").symlink_to(project / ".venv")
    shutil.copy(bundle, tmp_path)
    run_without_network(tmp_path, "bash", "-c", unbundle)
    folder = tmp_path / "study"
    # The page's site stands for this machine here.
    shutil.copytree(folder / "slurm/local", folder / "slurm/kestrel")
    (folder / "slurm/kestrel/config.yaml").write_text("config: [site=kestrel]\n")
    for line in later:
        if " compare " not in line:
            dry = " --dry-run" if "snakemake" in line else ""
            said = run_without_network(folder, "bash", "-c", line + dry)
    assert "plan_runs" in said


def outcome(folder: Path, site: str) -> dict[str, Any]:
    """Return the measured values without times and machines, which vary."""
    results = folder / "results" / site
    summary = json.loads((results / "summary.json").read_text())
    tables = results / "tables"
    steps = f"""SELECT run_id, rank, count(*), max(step) FROM '{tables}/steps.parquet'
        GROUP BY ALL ORDER BY ALL"""
    accuracy = f"""SELECT run_id, max(round(value_number, 6)) FROM '{tables}/metrics.parquet'
        WHERE name = 'test_accuracy' GROUP BY ALL ORDER BY ALL"""
    return {
        "inputs": summary["inputs"],
        "digests": {run["image_digest"] for run in summary["runs"]},
        "states": [run["state"] for run in summary["runs"]],
        "steps": duckdb.sql(steps).fetchall(),
        "accuracies": duckdb.sql(accuracy).fetchall(),
    }


def test_it_runs_on_a_machine_without_network(bundle: Path, tmp_path: Path) -> None:
    folder = tmp_path / "no network"
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(folder)
    run_without_network(folder, "make", "setup")
    said = run_without_network(folder, ARGOSY, "unbundle", str(bundle), ".")
    assert "importing the image small" in said
    again = run_without_network(folder, ARGOSY, "unbundle", str(bundle), ".")
    assert "importing the image" not in again
    # Results of the other site stay: nothing is to be run for it.
    planned = run_without_network(folder, ".venv/bin/snakemake", "--dry-run", "--quiet", "rules")
    assert "rule run" not in planned
    shutil.copytree(folder / "slurm/local", folder / "slurm/elsewhere")
    run_without_network(
        folder, ".venv/bin/snakemake", "--quiet", "host", "--config", "site=elsewhere"
    )
    there = outcome(folder, "elsewhere")
    assert there == outcome(folder, "local")
    assert len(there["steps"]) == 3
    assert len(there["accuracies"]) == 2
    run_without_network(folder, ARGOSY, "compare", "results/local", "results/elsewhere")
    page = (folder / "comparison.html").read_text()
    assert "All sites ran the same study" in page

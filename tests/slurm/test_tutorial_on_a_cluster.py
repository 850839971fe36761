"""docs/tutorial.md to its end: from a wheel to a report on this machine, and on a cluster."""

import json
from pathlib import Path

import pytest
from cluster import Cluster
from cluster_workspace import ClusterWorkspace
from wheels import Tutorial, install, own_programs, variables_of
from workspace import Workspace

from argosy_images.store.store import Store

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.container,
    pytest.mark.thorough,
    pytest.mark.timeout(900),
]


def test_the_tutorial_runs_on_a_cluster_as_it_is_written(
    cluster: Cluster, project: Path, project_store: Store, tmp_path: Path
) -> None:
    installed = install(project, tmp_path)
    tutorial = Tutorial.read(project)
    home = tmp_path / "repository"
    home.mkdir()
    tutorial.write_program(home)
    before = {path: path.read_bytes() for path in home.iterdir()}
    own = {"HOME": str(tmp_path), "ARGOSY_STORE": str(project_store.path)}
    variables = {**variables_of(installed), **own}
    here = Workspace(home, variables)
    # Nothing but what the page says carries the study to the cluster, whose login node has no network.
    there = ClusterWorkspace(home, variables, site="kestrel", cluster=cluster)
    steps = [
        (there, tutorial.init_there) if each.startswith("argosy init") else (here, each)
        for each in tutorial.here
    ] + [(there, each) for each in tutorial.on_the_cluster]
    for study, command in steps:
        process = study.start(*own_programs(installed, command))
        said, _ = process.communicate(timeout=600)
        assert process.returncode == 0, f"{command}\n{said}"
        if command.startswith("argosy init"):
            tutorial.edit(home)
    for file in ("results/local/report.html", "results/kestrel/report.html", said.strip()):
        assert (home / file).is_file()
    assert {path: path.read_bytes() for path in before} == before
    # With `pip install` four commands make the reports of this machine and of the cluster, and one edit.
    commands = [each for _, each in steps if each.startswith(("argosy init", "snakemake"))]
    commands.remove("snakemake -n")
    assert [each.split(" -")[0] for each in commands] == ["argosy init", "snakemake", "snakemake"]
    summary = json.loads((home / "results/kestrel/summary.json").read_text())
    assert [each["experiment"] for each in summary["experiments"]] == ["train"]
